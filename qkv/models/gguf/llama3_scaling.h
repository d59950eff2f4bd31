#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace qkv::models {

// LLaMA 3 divides rotary frequencies by a function of their wavelengths (transformers,
// modeling_rope_utils.py). A converted file has the divisors, computed with these constants and a factor.
struct Llama3Scaling {
  static constexpr double kLow = 1, kHigh = 4, kFirstPositions = 8192;
  double factor = 1;

  double divisor(double wavelength) const {
    const double turns = kFirstPositions / wavelength;
    if (turns > kHigh) return 1;
    if (turns < kLow) return factor;
    const double smooth = (turns - kLow) / (kHigh - kLow);
    return 1 / ((1 - smooth) / factor + smooth);
  }
  // Of rotary pair i of a head.
  double divisor(int64_t i, int64_t head_width, double base) const {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
    return divisor(2 * std::numbers::pi / frequency);
  }
};

}  // namespace qkv::models

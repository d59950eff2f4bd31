#pragma once
// What the lessons share: random numbers, and numbers printed with few digits.
#include <qkv/qkv.h>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <numbers>
#include <sstream>

namespace lesson {

// Independent normal numbers with mean 0 and variance 1 (Box and Muller 1958).
inline qkv::Tensor normal(const qkv::Shape& shape, uint64_t seed) {
  qkv::RandomStream random(seed);
  qkv::Tensor x = qkv::Tensor::empty(shape);
  for (float& element : x.values()) {
    const float radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    element = radius * std::cos(2 * std::numbers::pi_v<float> * random.uniform());
  }
  return x;
}

// The largest difference between elements of two tensors of equal shape.
inline double difference(const qkv::Tensor& a, const qkv::Tensor& b) {
  double most = 0;
  for (size_t i = 0; i < a.values().size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.values()[i]) - b.values()[i]));
  return most;
}

// x in a column of this width; zero has no sign.
inline std::string cell(double x, int decimals = 2, int width = 7) {
  const double unit = std::pow(10.0, decimals);
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << std::setw(width) << std::round(x * unit) / unit + 0.0;
  return text.str();
}

inline std::string cells(std::span<const float> row, int decimals = 2) {
  std::string text;
  for (const float x : row) text += cell(x, decimals);
  return text;
}

}  // namespace lesson

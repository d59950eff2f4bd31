#include "qkv/train/svg_axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "qkv/base/error.h"

namespace qkv::train {
namespace {

constexpr int kTicks = 5;

// The smallest of 1, 2 and 5 times a power of ten that divides a range into at most kTicks intervals.
double tick_of(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / kTicks)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * kTicks >= range) return factor * power;
  }
  return 10 * power;
}

}  // namespace

SvgAxis SvgAxis::of(double low, double high, double begin, double end) {
  if (!(low <= high)) low = 0, high = 1;  // no points
  if (low == high) high = low + std::max(1.0, std::abs(low) / 10);
  return {low, high, begin, end};
}

std::vector<double> SvgAxis::ticks() const {
  const double tick = tick_of(high - low), first = std::ceil(low / tick);
  std::vector<double> result;
  // Counted, as first + 1 equals first if the values are large and close.
  for (int i = 0; i <= kTicks && (first + i) * tick <= high + tick / 1000; ++i)
    result.push_back((first + i) * tick);
  return result;
}

std::string svg_number(const char* pattern, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

std::string svg_text(double x, double y, const char* anchor, const std::string& text) {
  return concat("<text x=\"", svg_number("%.1f", x), "\" y=\"", svg_number("%.1f", y), "\" text-anchor=\"",
                anchor, "\">", text, "</text>\n");
}

std::string svg_line(double x1, double y1, double x2, double y2, const char* colour) {
  return concat("<line x1=\"", svg_number("%.1f", x1), "\" y1=\"", svg_number("%.1f", y1), "\" x2=\"",
                svg_number("%.1f", x2), "\" y2=\"", svg_number("%.1f", y2), "\" stroke=\"", colour, "\"/>\n");
}

std::string svg_start(double width, double height) {
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
                "\" viewBox=\"0 0 ", width, " ", height,
                "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
}

}  // namespace qkv::train

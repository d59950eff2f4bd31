#include "qkv/train/curve_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "qkv/base/error.h"

namespace qkv::train {
namespace {

// Sizes in pixels.
constexpr double kWidth = 720, kHeight = 400, kLeft = 60, kRight = 20, kTop = 30, kBottom = 40;
constexpr size_t kMaxPoints = 500;
constexpr int kTicks = 5;
constexpr std::array kColours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};

std::string digits(const char* pattern, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

std::vector<std::pair<double, double>> thinned(const Curve& curve) {
  std::vector<std::pair<double, double>> result;
  const size_t size = curve.points.size(), count = std::min(size, kMaxPoints);
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * size / count, end = (i + 1) * size / count;
    double step = 0, value = 0;
    for (size_t at = begin; at < end; ++at) {
      step += static_cast<double>(curve.points[at].first);
      value += curve.points[at].second;
    }
    const double points = static_cast<double>(end - begin);
    result.emplace_back(step / points, value / points);
  }
  return result;
}

// The smallest of 1, 2 and 5 times a power of ten that divides a range into at most kTicks intervals.
double tick_of(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / kTicks)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * kTicks >= range) return factor * power;
  }
  return 10 * power;
}

// An axis: maps the values `low` to `high` to the pixels `begin` to `end`.
struct Axis {
  double low, high, begin, end;

  static Axis of(double low, double high, double begin, double end) {
    if (!(low <= high)) low = 0, high = 1;  // no points
    if (low == high) high = low + std::max(1.0, std::abs(low) / 10);
    return {low, high, begin, end};
  }
  double pixel(double value) const { return begin + (value - low) / (high - low) * (end - begin); }
  std::vector<double> ticks() const {
    const double tick = tick_of(high - low), first = std::ceil(low / tick);
    std::vector<double> result;
    // Counted, as first + 1 equals first if the values are large and close.
    for (int i = 0; i <= kTicks && (first + i) * tick <= high + tick / 1000; ++i)
      result.push_back((first + i) * tick);
    return result;
  }
};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return concat("<text x=\"", digits("%.1f", x), "\" y=\"", digits("%.1f", y), "\" text-anchor=\"", anchor,
                "\">", text, "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return concat("<line x1=\"", digits("%.1f", x1), "\" y1=\"", digits("%.1f", y1), "\" x2=\"",
                digits("%.1f", x2), "\" y2=\"", digits("%.1f", y2), "\" stroke=\"", colour, "\"/>\n");
}

}  // namespace

std::string curves_svg(std::span<const Curve> curves) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double last = 0, low = kInfinity, high = -kInfinity;
  std::vector<std::vector<std::pair<double, double>>> drawn;
  for (const Curve& curve : curves) {
    drawn.push_back(thinned(curve));
    for (const auto& [step, value] : drawn.back()) {
      last = std::max(last, step);
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  const Axis x = Axis::of(0, last, kLeft, kWidth - kRight);
  const Axis y = Axis::of(low, high, kHeight - kBottom, kTop);

  std::string svg = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"",
                           kHeight, "\" viewBox=\"0 0 ", kWidth, " ", kHeight,
                           "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  for (const double tick : x.ticks()) {
    svg += line(x.pixel(tick), kTop, x.pixel(tick), kHeight - kBottom, "#e5e5e5");
    svg += text_at(x.pixel(tick), kHeight - kBottom + 16, "middle", digits("%g", tick));
  }
  for (const double tick : y.ticks()) {
    svg += line(kLeft, y.pixel(tick), kWidth - kRight, y.pixel(tick), "#e5e5e5");
    svg += text_at(kLeft - 6, y.pixel(tick) + 4, "end", digits("%g", tick));
  }
  svg += text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "step");
  for (size_t i = 0; i < curves.size(); ++i) {
    const char* colour = kColours.at(i % kColours.size());
    svg += concat("<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"", colour, "\" points=\"");
    for (const auto& [step, value] : drawn[i])
      svg += concat(digits("%.1f", x.pixel(step)), ",", digits("%.1f", y.pixel(value)), " ");
    svg += "\"/>\n";
    const double legend = kLeft + 10 + 150 * static_cast<double>(i);
    svg += line(legend, kTop - 12, legend + 20, kTop - 12, colour);
    svg += text_at(legend + 26, kTop - 8, "start", curves[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace qkv::train

#include "qkv/train/curve_svg.h"

#include <algorithm>
#include <array>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/train/svg_axis.h"

namespace qkv::train {
namespace {

// Sizes in pixels.
constexpr double kWidth = 720, kHeight = 400, kLeft = 60, kRight = 20, kTop = 64, kBottom = 40;
constexpr size_t kMaxPoints = 500, kMaxMarks = 60;  // marks: points drawn as circles
constexpr std::array kColours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};

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

}  // namespace

std::string curves_svg(const std::string& title, std::span<const Curve> curves) {
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
  const SvgAxis x = SvgAxis::of(0, last, kLeft, kWidth - kRight);
  const SvgAxis y = SvgAxis::of(low, high, kHeight - kBottom, kTop);

  std::string svg = svg_start(kWidth, kHeight);
  for (const double tick : x.ticks()) {
    svg += svg_line(x.pixel(tick), kTop, x.pixel(tick), kHeight - kBottom, "#e5e5e5");
    svg += svg_text(x.pixel(tick), kHeight - kBottom + 16, "middle", svg_number("%g", tick));
  }
  for (const double tick : y.ticks()) {
    svg += svg_line(kLeft, y.pixel(tick), kWidth - kRight, y.pixel(tick), "#e5e5e5");
    svg += svg_text(kLeft - 6, y.pixel(tick) + 4, "end", svg_number("%g", tick));
  }
  svg += svg_text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "step");
  svg +=
      svg_text(kLeft, 24, "start", concat("<tspan font-size=\"16\" font-weight=\"600\">", title, "</tspan>"));
  for (size_t i = 0; i < curves.size(); ++i) {
    const char* colour = kColours.at(i % kColours.size());
    // Later curves lie on top: wider.
    const char* width = i == 0 ? "1.5" : "2.5";
    svg += concat("<polyline fill=\"none\" stroke-linejoin=\"round\" stroke-width=\"", width, "\" stroke=\"",
                  colour, "\" points=\"");
    for (const auto& [step, value] : drawn[i])
      svg += concat(svg_number("%.1f", x.pixel(step)), ",", svg_number("%.1f", y.pixel(value)), " ");
    svg += "\"/>\n";
    if (drawn[i].size() <= kMaxMarks) {
      for (const auto& [step, value] : drawn[i])
        svg += concat("<circle cx=\"", svg_number("%.1f", x.pixel(step)), "\" cy=\"",
                      svg_number("%.1f", y.pixel(value)), "\" r=\"3\" fill=\"", colour, "\"/>\n");
    }
    const double legend = kLeft + 10 + 150 * static_cast<double>(i);
    svg += svg_line(legend, kTop - 12, legend + 20, kTop - 12, colour);
    svg += svg_text(legend + 26, kTop - 8, "start", curves[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace qkv::train

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/train/svg_axis.h"
#include "qkv/train/table3/report.h"

namespace qkv::train {
namespace {

// Sizes in pixels.
constexpr double kNames = 110, kPanel = 320, kGap = 30, kHead = 60, kRowHeight = 20, kFoot = 40;
constexpr const char *kHere = "#1f77b4", *kPaper = "#d62728", *kGrid = "#e5e5e5";

// A row's differences from base.
struct Table3Point {
  double y = 0, here = 0, paper = 0;
  double half_width = 0;
};

std::string circle(double x, double y, const char* colour, bool filled) {
  return concat("<circle cx=\"", svg_number("%.1f", x), "\" cy=\"", svg_number("%.1f", y),
                "\" r=\"4\" stroke=\"", colour, "\" fill=\"", filled ? colour : "none", "\"/>\n");
}

std::string panel(double left, double bottom, const std::string& title,
                  const std::vector<Table3Point>& points) {
  double low = 0, high = 0;
  for (const Table3Point& point : points) {
    low = std::min({low, point.here - point.half_width, point.paper});
    high = std::max({high, point.here + point.half_width, point.paper});
  }
  const SvgAxis axis = SvgAxis::of(low, high, left, left + kPanel);
  std::string svg = svg_text(left + kPanel / 2, kHead - 12, "middle", title);
  for (const double tick : axis.ticks()) {
    svg += svg_line(axis.pixel(tick), kHead, axis.pixel(tick), bottom, kGrid);
    svg += svg_text(axis.pixel(tick), bottom + 16, "middle", svg_number("%g", tick));
  }
  svg += svg_line(axis.pixel(0), kHead, axis.pixel(0), bottom, "#000000");
  for (const Table3Point& point : points) {
    if (point.half_width > 0) {
      svg += svg_line(axis.pixel(point.here - point.half_width), point.y,
                      axis.pixel(point.here + point.half_width), point.y, kHere);
    }
    svg += circle(axis.pixel(point.here), point.y, kHere, true);
    svg += circle(axis.pixel(point.paper), point.y, kPaper, false);
  }
  return svg;
}

}  // namespace

std::string table3_svg(const Table3Report& report) {
  std::vector<Table3Point> loss, bleu;
  std::string names;
  const Table3Row& base = report.rows.front().row;
  double y = kHead + kRowHeight / 2;
  for (const Table3ReportRow& row : report.rows) {
    if (row.row.name == base.name) continue;
    names += svg_text(kNames - 8, y + 4, "end", row.row.name);
    if (row.loss && row.loss->order) {
      loss.push_back({y, row.loss->order->difference, std::log(row.row.perplexity / base.perplexity),
                      row.loss->order->half_width.value_or(0)});
    }
    if (row.bleu && row.bleu->order) {
      bleu.push_back({y, row.bleu->order->difference, row.row.bleu - base.bleu,
                      row.bleu->order->half_width.value_or(0)});
    }
    y += kRowHeight;
  }
  const double bottom = y - kRowHeight / 2, width = kNames + 2 * kPanel + 2 * kGap;
  std::string svg = svg_start(width, bottom + kFoot);
  svg += circle(kNames + 4, 16, kHere, true) +
         svg_text(kNames + 14, 20, "start",
                  concat("here, scale 1/", report.options.scale, ", with 95 % intervals")) +
         circle(kNames + kPanel + 4, 16, kPaper, false) +
         svg_text(kNames + kPanel + 14, 20, "start", "Vaswani et al. 2017, Table 3");
  svg += names + panel(kNames, bottom, "log perplexity, minus that of base", loss) +
         panel(kNames + kPanel + kGap, bottom, "BLEU, minus that of base", bleu);
  return svg + "</svg>\n";
}

}  // namespace qkv::train

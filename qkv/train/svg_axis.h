#pragma once
// Parts of drawings with axes.

#include <string>
#include <vector>

namespace qkv::train {

// A linear axis: maps the values `low` to `high` to the pixels `begin` to `end`.
struct SvgAxis {
  double low = 0, high = 1, begin = 0, end = 1;

  // Of a range that may be empty (low > high: no values) or a single value.
  static SvgAxis of(double low, double high, double begin, double end);
  double pixel(double value) const { return begin + (value - low) / (high - low) * (end - begin); }
  // At most six round values.
  std::vector<double> ticks() const;
};

// A number by a printf pattern.
std::string svg_number(const char* pattern, double value);
// `anchor`: "start", "middle" or "end". The text is not escaped.
std::string svg_text(double x, double y, const char* anchor, const std::string& text);
std::string svg_line(double x1, double y1, double x2, double y2, const char* colour);
// The start of a drawing on white; "</svg>" ends it.
std::string svg_start(double width, double height);

}  // namespace qkv::train

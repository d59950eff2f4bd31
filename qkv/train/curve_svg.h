#pragma once
// A drawing of training curves.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qkv::train {

struct Curve {
  std::string name;
  std::vector<std::pair<int64_t, double>> points;  // step and value, by step
};

// An SVG of all curves over the steps, with axes and a legend. Curves of more than 500 points are drawn as
// means of equal numbers of points. Deterministic.
std::string curves_svg(std::span<const Curve> curves);

}  // namespace qkv::train

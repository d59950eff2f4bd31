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

// An SVG of all curves over the steps, with a title, axes and a legend; later curves lie on top. Curves of at
// most 60 points have a mark at each, so that a single point shows; of more than 500, means of equal numbers
// of points are drawn. The texts are not escaped. Deterministic.
std::string curves_svg(const std::string& title, std::span<const Curve> curves);

}  // namespace qkv::train

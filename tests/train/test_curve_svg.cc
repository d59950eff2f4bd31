#include <gtest/gtest.h>

#include <array>

#include "qkv/train/curve_svg.h"

namespace qkv::train {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(CurveSvg, ShowsATitleAndASingleValidation) {
  Curve train{.name = "training loss", .points = {}};
  for (int64_t step = 1; step <= 100; ++step)
    train.points.emplace_back(step, 100.0 / static_cast<double>(step));
  const Curve valid{.name = "validation loss", .points = {{50, 3}}};
  const std::string svg = curves_svg("Loss", std::array{train, valid});
  EXPECT_NE(svg.find(">Loss<"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<circle"), 1U) << "of the validation; a line of 100 points needs no marks";
  EXPECT_GT(svg.find("<circle"), svg.rfind("<polyline")) << "on top";
}

}  // namespace
}  // namespace qkv::train

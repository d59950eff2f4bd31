#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "qkv/metrics/information.h"

namespace qkv::metrics {
namespace {

TEST(Information, IsZeroForEqualRowsAndTheLogarithmForDistinctOnes) {
  const std::vector<float> equal = {0.5f, 0.25f, 0.25f, 0.5f, 0.25f, 0.25f};
  EXPECT_NEAR(mutual_information(equal.data(), 2, 3, 3), 0, 1e-12);
  const std::vector<float> distinct = {0, 1, 0, 9, 1, 0, 0, 9, 0, 0, 1, 9};  // rows are 4 apart
  EXPECT_NEAR(mutual_information(distinct.data(), 3, 3, 4), std::log2(3), 1e-12);
  // H(5/8, 3/8) - (H(1/4, 3/4) + 0) / 2, with rows (1/4, 3/4) and (1, 0).
  const std::vector<float> mixed = {0.25f, 0.75f, 1, 0};
  EXPECT_NEAR(mutual_information(mixed.data(), 2, 2, 2), 0.954434 - 0.811278 / 2, 1e-6);
}

}  // namespace
}  // namespace qkv::metrics

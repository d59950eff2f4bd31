// The comparison with golden numbers must fail for wrong ones.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/failures.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

int failures_of(const Tensor& found, const Tensor& expected) {
  return failures_in([&] { expect_close(found, expected, "numbers"); });
}

TEST(ExpectClose, DetectsAWrongElement) {
  const Tensor expected = random_tensor({2, 3}, 1);
  EXPECT_EQ(failures_of(expected.clone(), expected), 0);
  for (int64_t i = 0; i < expected.numel(); ++i) {
    for (const float wrong : {expected.data()[i] + 2e-4f, std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity()}) {
      Tensor found = expected.clone();
      found.data()[i] = wrong;
      EXPECT_EQ(failures_of(found, expected), 1) << i << ": " << wrong;
    }
  }
}

TEST(ExpectClose, DetectsAnotherShape) {
  const Tensor expected = random_tensor({2, 3}, 1);
  for (const Shape& shape : {Shape{3, 2}, Shape{6}, Shape{1, 2, 3}, Shape{2, 3, 1}})
    EXPECT_EQ(failures_of(expected.reshape(shape), expected), 1) << shape;
  EXPECT_EQ(failures_of(expected.slice_rows(0, 1), expected), 1);
  EXPECT_EQ(failures_of({}, expected), 1);
  EXPECT_EQ(failures_of(expected, {}), 1);
}

TEST(GoldenFiles, RejectUnknownNames) { EXPECT_THROW(golden_files("ops", "no such op"), std::runtime_error); }

}  // namespace

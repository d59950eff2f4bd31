// The gradient check must fail for wrong gradients.

#include <gtest/gtest.h>

#include "tests/ops/gradient_check.h"
#include "tests/support/failures.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

int failures_of(const GradientCheck& check) {
  return failures_in([&] { check_gradients(check); });
}

// x + y with the given backward function.
template <class Backward>
GradientCheck sum_with(const Backward& backward) {
  return {.function =
              [backward](const std::vector<Variable>& in) {
                const Variable x = in[0], y = in[1];
                const Tensor sum = (Variable(x.value()) + Variable(y.value())).value();
                if (!Tape::records({x, y})) return Variable(sum);
                return Tape::record("sum", sum, {{x, false}, {y, false}},
                                    [=](const Tensor& dz) { backward(x, y, dz); });
              },
          .inputs = {random_tensor({3, 4}, 1), random_tensor({3, 4}, 2)}};
}

void add(const Variable& to, const Tensor& gradient) {
  if (to.requires_grad()) to.add_grad(gradient);
}

TEST(GradientCheck, AcceptsACorrectGradient) {
  EXPECT_EQ(failures_of(sum_with([](const Variable& x, const Variable& y, const Tensor& dz) {
              add(x, dz);
              add(y, dz);
            })),
            0);
}

TEST(GradientCheck, DetectsASlightlyWrongGradient) {
  EXPECT_GT(failures_of(sum_with([](const Variable& x, const Variable& y, const Tensor& dz) {
              add(x, dz);
              add(y, (Variable(dz) * 1.002f).value());
            })),
            0);
}

TEST(GradientCheck, DetectsAnOverwrittenGradient) {
  EXPECT_GT(failures_of(sum_with([](const Variable& x, const Variable& y, const Tensor& dz) {
              add(x, dz);
              if (y.requires_grad()) y.gradient_slot().tensor.copy_from(dz);
            })),
            0);
}

TEST(GradientCheck, DetectsAMissingGradientBesideAFrozenInput) {
  EXPECT_GT(failures_of(sum_with([](const Variable& x, const Variable& y, const Tensor& dz) {
              if (!x.requires_grad()) return;
              add(x, dz);
              add(y, dz);
            })),
            0);
}

TEST(GradientCheck, DetectsAMissingGradient) {
  EXPECT_GT(failures_of(sum_with([](const Variable& x, const Variable&, const Tensor& dz) { add(x, dz); })),
            0);
}

}  // namespace

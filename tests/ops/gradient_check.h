#pragma once
// The generic gradient check: what backward() leaves in the inputs, against central differences of the value.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "qkv/ops/functions.h"
#include "tests/support/random.h"

namespace qkv::testing {

struct GradientCheck {
  std::function<Variable(const std::vector<Variable>&)>
      function;  // any output; it is summed with random coefficients
  std::vector<Tensor> inputs;
  // float32 values, so the step is large and the tolerance is what its square and the rounding leave.
  double step = 1e-2, tolerance = 2e-3;
};

// Checks every element of every input's gradient; also that a second use of the inputs adds to it.
inline void check_gradients(const GradientCheck& check) {
  std::vector<Variable> leaves;
  for (const Tensor& input : check.inputs) leaves.push_back(Variable::parameter(input.clone()));
  const Tensor coefficients = random_tensor(check.function(leaves).shape(), 99);
  {
    Tape tape;
    tape.backward(weighted_sum(check.function(leaves), coefficients));
  }
  // In double from here on: the sum's rounding must not hide the difference.
  const auto value = [&] {
    const Tensor y = check.function(leaves).value();
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += double{y.values()[i]} * coefficients.values()[i];
    return sum;
  };
  std::vector<Tensor> gradients;
  for (size_t n = 0; n < leaves.size(); ++n) {
    ASSERT_TRUE(leaves[n].has_grad()) << "input " << n << " got no gradient";
    gradients.push_back(leaves[n].grad().clone());
    for (int64_t i = 0; i < leaves[n].value().numel(); ++i) {
      float& x = leaves[n].value().values()[i];
      const float before = x;
      x = static_cast<float>(before + check.step);
      const double up = x, above = (leaves[n].mark_modified(), value());
      x = static_cast<float>(before - check.step);
      const double down = x, below = (leaves[n].mark_modified(), value());
      x = before;
      leaves[n].mark_modified();
      const double expected = (above - below) / (up - down);
      ASSERT_NEAR(gradients[n].values()[i], expected, check.tolerance * std::max(1.0, std::abs(expected)))
          << "input " << n << ", element " << i;
    }
  }
  // The gradients are still there: another pass must add as much again.
  {
    Tape tape;
    tape.backward(weighted_sum(check.function(leaves), coefficients));
  }
  for (size_t n = 0; n < leaves.size(); ++n) {
    for (int64_t i = 0; i < gradients[n].numel(); ++i) {
      const float once = gradients[n].values()[i];
      ASSERT_NEAR(leaves[n].grad().values()[i], 2 * once, 1e-5 * std::max(1.0f, std::abs(once)))
          << "not added";
    }
  }
}

}  // namespace qkv::testing

#pragma once
// The generic gradient check: compares backward() with finite differences.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/support/random.h"

namespace qkv::testing {

struct GradientCheck {
  // Any output, which is reduced to a sum with random coefficients.
  std::function<Variable(const std::vector<Variable>&)> function;
  std::vector<Tensor> inputs;
  // Step of the differences, whose error is of the fourth order in it; the rest is float32's rounding.
  double step = 2e-2;
  // Relative to the larger of an element's gradient and the root mean square of its input's gradient.
  double tolerance = 5e-4;
};

// Gradients by input; undefined if none.
using Gradients = std::vector<Tensor>;

inline std::vector<Variable> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.push_back(Variable::parameter(input.clone()));
  return leaves;
}

inline Gradients gradients_of(const std::vector<Variable>& leaves) {
  Gradients gradients;
  for (const Variable& leaf : leaves) gradients.push_back(leaf.has_grad() ? leaf.grad().clone() : Tensor());
  return gradients;
}

// The gradients of `loss` with new leaves.
inline Gradients backward(const std::vector<Tensor>& inputs,
                          const std::function<Variable(const std::vector<Variable>&)>& loss) {
  const std::vector<Variable> leaves = leaves_of(inputs);
  Tape tape;
  tape.backward(loss(leaves));
  return gradients_of(leaves);
}

inline double root_mean_square(const Tensor& x) {
  double sum = 0;
  for (const float value : x.values()) sum += double{value} * value;
  return std::sqrt(sum / static_cast<double>(std::max<int64_t>(1, x.numel())));
}

// found = factor * once, up to the last bits.
inline void expect_equal_gradients(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.defined(), expected.defined()) << what;
  if (!found.defined()) return;
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const double typical = root_mean_square(expected);
  for (size_t i = 0; i < expected.values().size(); ++i) {
    const double wanted = expected.values()[i];
    ASSERT_NEAR(found.values()[i], wanted, 1e-5 * std::max(typical, std::abs(wanted)))
        << what << ", element " << i;
  }
}

inline Tensor sum_of(const Tensor& a, const Tensor& b) { return (Variable(a) + Variable(b)).value(); }

// Compares each element of each input's gradient with finite differences.
inline void check_against_differences(const GradientCheck& check, const Gradients& gradients,
                                      const Tensor& coefficients) {
  const std::vector<Variable> leaves = leaves_of(check.inputs);
  // In double precision, so that the sum's rounding does not hide the difference.
  const auto value = [&] {
    const Tensor y = check.function(leaves).value().clone();
    double sum = 0;
    for (size_t i = 0; i < y.values().size(); ++i) sum += double{y.values()[i]} * coefficients.values()[i];
    return sum;
  };
  for (size_t n = 0; n < leaves.size(); ++n) {
    ASSERT_TRUE(gradients[n].defined()) << "input " << n << " got no gradient";
    const double typical = root_mean_square(gradients[n]);
    for (size_t i = 0; i < gradients[n].values().size(); ++i) {
      Variable leaf = leaves[n];
      Tensor values = leaf.value();
      float& x = values.values()[i];
      const float before = x;
      const auto at = [&](double shift) {
        x = static_cast<float>(before + shift);
        leaf.mark_modified();
        return std::pair<double, double>{x, value()};
      };
      const auto [right, above] = at(check.step);
      const auto [left, below] = at(-check.step);
      const auto [far_right, far_above] = at(2 * check.step);
      const auto [far_left, far_below] = at(-2 * check.step);
      at(0);
      const double near = (above - below) / (right - left),
                   far = (far_above - far_below) / (far_right - far_left);
      const double expected = near + (near - far) / 3;
      ASSERT_NEAR(gradients[n].values()[i], expected,
                  check.tolerance * std::max(typical, std::abs(expected)) + 2e-5)
          << "input " << n << ", element " << i;
    }
  }
}

// Compares the gradient of every element of every input with finite differences, and checks that gradients
// are equal
// - if an input is the result of another operation,
// - in sum, if the function is used twice, and if two inputs of one shape are one variable,
// - if another input is frozen,
// and are added to those of an earlier pass.
inline void check_gradients(const GradientCheck& check) {
  const Shape shape = check.function(leaves_of(check.inputs)).shape();
  const Tensor coefficients = random_tensor(shape, 99), others = random_tensor(shape, 98);
  const auto loss = [&](const std::vector<Variable>& in) {
    return weighted_sum(check.function(in), coefficients);
  };
  const Gradients once = backward(check.inputs, loss);
  ASSERT_NO_FATAL_FAILURE(check_against_differences(check, once, coefficients));
  const size_t count = check.inputs.size();

  const auto computed = [](const std::vector<Variable>& in) {
    std::vector<Variable> results;
    for (const Variable& x : in) results.push_back(reshape(x, Shape{x.shape()}));
    return results;
  };
  const Gradients through = backward(check.inputs, [&](const auto& in) { return loss(computed(in)); });
  const Gradients other =
      backward(check.inputs, [&](const auto& in) { return weighted_sum(check.function(in), others); });
  const auto twice = [&](const std::vector<Variable>& in) {
    return loss(in) + weighted_sum(check.function(in), others);
  };
  const Gradients both = backward(check.inputs, twice);
  const Gradients both_through = backward(check.inputs, [&](const auto& in) { return twice(computed(in)); });
  for (size_t n = 0; n < count; ++n) {
    const std::string input = "input " + std::to_string(n);
    expect_equal_gradients(through[n], once[n], input + " computed");
    expect_equal_gradients(both[n], sum_of(once[n], other[n]), input + " used twice");
    expect_equal_gradients(both_through[n], both[n], input + " computed and used twice");
  }

  for (size_t n = 0; n < count; ++n) {
    for (size_t m = n + 1; m < count; ++m) {
      if (check.inputs[n].shape() != check.inputs[m].shape()) continue;
      std::vector<Tensor> inputs = check.inputs;
      inputs[m] = inputs[n];
      const Gradients apart = backward(inputs, loss);
      const Gradients shared = backward(inputs, [&](std::vector<Variable> in) {
        in[m] = in[n];
        return loss(in);
      });
      const std::string pair = "inputs " + std::to_string(n) + " and " + std::to_string(m);
      for (size_t i = 0; i < count; ++i) {
        if (i != m)
          expect_equal_gradients(shared[i], i == n ? sum_of(apart[n], apart[m]) : apart[i],
                                 pair + " are one");
      }
    }
  }

  for (size_t n = 0; n < count; ++n) {
    const std::vector<Variable> leaves = leaves_of(check.inputs);
    leaves[n].set_requires_grad(false);
    Tape tape;
    const Variable result = loss(leaves);
    ASSERT_EQ(result.requires_grad(), count > 1) << "input " << n << " frozen";
    if (count == 1) continue;
    tape.backward(result);
    Gradients expected = once;
    expected[n] = Tensor();
    const Gradients found = gradients_of(leaves);
    for (size_t i = 0; i < count; ++i) {
      expect_equal_gradients(found[i], expected[i],
                             "input " + std::to_string(i) + " with input " + std::to_string(n) + " frozen");
    }
  }

  const std::vector<Variable> leaves = leaves_of(check.inputs);
  for (int pass = 0; pass < 2; ++pass) {
    Tape tape;
    tape.backward(loss(leaves));
  }
  for (size_t n = 0; n < count; ++n) {
    expect_equal_gradients(leaves[n].grad(), sum_of(once[n], once[n]),
                           "input " + std::to_string(n) + " after two passes");
  }
}

}  // namespace qkv::testing

// The gradients of the reference attention, against which the kernels are tested, are those of its forward
// pass.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/kernels/reference/attention/attention.h"
#include "tests/kernels/attention_case.h"

namespace qkv::kernels {
namespace {

TEST(AttentionReference, GradientsMatchFiniteDifferences) {
  for (const bool causal : {false, true}) {
    AttentionCase problem({.queries = {3, 5},
                           .keys = {5, 4},
                           .heads = 4,
                           .d_k = 3,
                           .d_v = 4,
                           .key_heads = 2,
                           .alibi = true,
                           .causal = causal,
                           .alignment = causal ? Alignment::first_key : Alignment::last_key,
                           .softcap = causal ? 0.7f : 0.0f,
                           .window = 4,
                           .sinks = true,
                           .keep = Mask::full,
                           .bias = Mask::full,
                           .dropout = 0.3f});
    const auto slope = reference::attention_backward(problem.shape, problem.input, problem.grad_output.data(),
                                                     problem.grad_output.stride);
    const auto loss = [&] {
      const auto result = reference::attention_forward(problem.shape, problem.input);
      const auto weights = problem.grad_output.values();
      double sum = 0;
      for (size_t i = 0; i < weights.size(); ++i) sum += static_cast<double>(weights[i]) * result.output[i];
      return sum;
    };
    const auto quotient = [&](float& x) {
      const float before = x, up = before + 1e-3f, down = before - 1e-3f;
      x = up;
      const double high = loss();
      x = down;
      const double low = loss();
      x = before;
      return (high - low) / (static_cast<double>(up) - static_cast<double>(down));
    };
    const auto compare = [&](Rows& rows, const std::vector<double>& wanted) {
      size_t at = 0;
      double seen = 0;
      for (int64_t r = 0; r < rows.rows_; ++r) {
        for (int64_t c = 0; c < rows.cols_; ++c, ++at) {
          ASSERT_NEAR(quotient(rows.data()[r * rows.stride + c]), wanted[at], 1e-6);
          seen = std::max(seen, std::abs(wanted[at]));
        }
      }
      EXPECT_GT(seen, 0.01);
    };
    for (size_t h = 0; h < problem.sinks().size(); ++h) {
      EXPECT_NEAR(quotient(problem.sinks()[h]), slope.sinks[h], 1e-6);
      EXPECT_GT(std::abs(slope.sinks[h]), 1e-4);
    }
    compare(problem.query, slope.query);
    compare(problem.key, slope.key);
    compare(problem.value, slope.value);
  }
}

}  // namespace
}  // namespace qkv::kernels

// Weights written during attention.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/reference/attention/attention.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

constexpr double kWeightError = 2e-6;

TEST(AttentionCapture, WritesWeightsScoresAndLargestWeights) {
  for_each_target([] {
    const AttentionCase problem({.queries = {2, 90},
                                 .keys = {150, 80},
                                 .heads = 3,
                                 .causal = true,
                                 .softcap = 1.5f,
                                 .keep = Mask::full,
                                 .bias = Mask::full,
                                 .dropout = 0.2f,
                                 .size = 2});
    const auto reference = reference::attention_forward(problem.shape, problem.input);
    const auto &expected = reference.weights, &log_sum_exp = reference.log_sum_exp;
    const int64_t tokens = problem.query_tokens(), top = 4;
    const auto rows = static_cast<size_t>(3 * tokens);
    const std::vector<int64_t>& offsets = problem.weight_offsets;
    std::vector<float> weights(expected.size(), 777.0f), scores(weights), top_weights(rows * top);
    std::vector<int32_t> top_keys(rows * top);
    Rows output(tokens, problem.value.cols_, 0);
    cpu::attention_forward(problem.shape, problem.input,
                           {.output = output.data(),
                            .output_stride = output.stride,
                            .capture = {.offsets = offsets.data(),
                                        .weights = weights.data(),
                                        .scores = scores.data(),
                                        .top = top,
                                        .top_weights = top_weights.data(),
                                        .top_keys = top_keys.data()}});
    EXPECT_EQ(output.values(), problem.forward().output.values());
    int short_rows = 0;
    for (size_t n = 0; n < rows; ++n) {
      const auto row = static_cast<int64_t>(n) % tokens;
      const size_t keys = row < 2 ? 150 : 80;
      const double* const own = expected.data() + problem.weight_offsets[n];
      std::vector<size_t> order;
      for (size_t j = 0; j < keys; ++j) {
        const size_t at = static_cast<size_t>(offsets[n]) + j;
        ASSERT_EQ(own[j] == 0, scores[at] == -std::numeric_limits<float>::infinity());
        ASSERT_NEAR(weights[at], own[j], kWeightError);
        if (own[j] == 0) continue;
        // Scores are the logarithms of weights, up to the normalisation.
        ASSERT_NEAR(scores[at] - log_sum_exp[n], std::log(own[j]), 2e-6 + 2e-7 / own[j]);
        order.push_back(j);
      }
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return own[a] > own[b]; });
      short_rows += order.size() < top ? 1 : 0;
      for (size_t t = 0; t < top; ++t) {
        const int64_t key = t < order.size() ? static_cast<int64_t>(order[t]) : -1;
        ASSERT_EQ(top_keys[n * top + t], key) << "row " << n << " place " << t;
        ASSERT_NEAR(top_weights[n * top + t], key < 0 ? 0.0 : own[key], kWeightError);
      }
    }
    EXPECT_GT(short_rows, 10);
  });
}

}  // namespace
}  // namespace qkv::kernels

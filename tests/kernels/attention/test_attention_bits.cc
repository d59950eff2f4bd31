// The same bits for any number of threads and in any batch.

#include <gtest/gtest.h>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/kernels.h"
#include "tests/kernels/attention_case.h"

namespace qkv::kernels {
namespace {

TEST(AttentionBits, SameBitsForAnyNumberOfThreads) {
  const int before = threads();
  for (const Mask bias : {Mask::none, Mask::rows, Mask::full}) {
    const AttentionCase problem({.queries = {300, 64, 1, 20, 90},
                                 .keys = {300, 70, 9, 25, 80},
                                 .heads = 3,
                                 .d_k = 32,
                                 .d_v = 40,
                                 .relative = bias == Mask::none,
                                 .causal = true,
                                 .bias = bias,
                                 .dropout = 0.1f});
    set_threads(1);
    const auto forward = problem.forward(true);
    const auto backward = problem.backward(forward);
    for (const int count : {2, 3, 4}) {
      set_threads(count);
      const auto again = problem.forward(true);
      EXPECT_EQ(forward.output.memory, again.output.memory);
      EXPECT_EQ(forward.log_sum_exp, again.log_sum_exp);
      EXPECT_EQ(forward.weights, again.weights);
      const auto slope = problem.backward(again);
      EXPECT_EQ(backward.query.memory, slope.query.memory);
      EXPECT_EQ(backward.key.memory, slope.key.memory);
      EXPECT_EQ(backward.value.memory, slope.value.memory);
      EXPECT_EQ(backward.bias, slope.bias);
      EXPECT_EQ(backward.relative, slope.relative);
    }
  }
  set_threads(before);
}

TEST(AttentionBits, SameBitsAloneAndInABatch) {
  for (const bool causal : {false, true}) {
    const AttentionCase batch({.queries = {17, 130, 250},
                               .keys = {33, 120, 250},
                               .heads = 2,
                               .d_k = 24,
                               .d_v = 40,
                               .causal = causal,
                               .spare = 7});
    const auto together = batch.forward();
    const auto slope = batch.backward(together);
    for (size_t s = 0; s < 3; ++s) {
      AttentionCase one({.queries = {batch.options().queries[s]},
                         .keys = {batch.options().keys[s]},
                         .heads = 2,
                         .d_k = 24,
                         .d_v = 40,
                         .causal = causal,
                         .seed = 2});
      const int64_t query_row = batch.shape.query_offsets[s], key_row = batch.shape.key_offsets[s];
      take_rows(batch, query_row, key_row, one);
      const auto alone = one.forward();
      const auto alone_slope = one.backward(alone);
      EXPECT_EQ(alone.output.values(), some_rows(together.output, query_row, one.query_tokens()));
      EXPECT_EQ(alone_slope.query.values(), some_rows(slope.query, query_row, one.query_tokens()));
      EXPECT_EQ(alone_slope.key.values(), some_rows(slope.key, key_row, one.key_tokens()));
      EXPECT_EQ(alone_slope.value.values(), some_rows(slope.value, key_row, one.key_tokens()));
    }
  }
}

// Required by batched decoding: a row's bits do not depend on other rows.
TEST(AttentionBits, SingleQueriesHaveTheSameBitsInAnyBatch) {
  const AttentionCase batch({.queries = {1, 1, 0, 1, 1, 1},
                             .keys = {3, 64, 9, 65, 200, 1},
                             .heads = 3,
                             .d_k = 64,
                             .d_v = 48,
                             .spare = 16});
  const auto together = batch.forward();
  for (size_t s = 0; s < 6; ++s) {
    AttentionCase one({.queries = {batch.options().queries[s]},
                       .keys = {batch.options().keys[s]},
                       .heads = 3,
                       .d_k = 64,
                       .d_v = 48,
                       .seed = 2});
    take_rows(batch, batch.shape.query_offsets[s], batch.shape.key_offsets[s], one);
    EXPECT_EQ(one.forward().output.values(),
              some_rows(together.output, batch.shape.query_offsets[s], one.query_tokens()));
  }
}

// The last queries alone have the same bits as among all, unless they are few enough for the KV cache path,
// which rounds differently.
TEST(AttentionBits, LastQueriesAloneHaveTheSameBits) {
  const AttentionCase whole({.queries = {100}, .keys = {100}, .d_k = 24, .d_v = 40, .causal = true});
  const auto all = whole.forward();
  for (const int keys : {1, 2, 31, 32, 33, 64, 97, 100}) {
    for (const int queries : {1, 4, 5, 60}) {
      if (queries > keys) continue;
      AttentionCase last(
          {.queries = {queries}, .keys = {keys}, .d_k = 24, .d_v = 40, .causal = true, .seed = 2});
      take_rows(whole, keys - queries, 0, last);
      const auto found = last.forward().output.values();
      const auto expected = some_rows(all.output, keys - queries, queries);
      if (queries > 4) {
        EXPECT_EQ(found, expected);
      }
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 5e-7f);
    }
  }
}

}  // namespace
}  // namespace qkv::kernels

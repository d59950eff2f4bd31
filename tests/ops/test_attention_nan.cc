// NaN among the values stays within its sequence.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "qkv/ops/attention.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

TEST(AttentionNan, StaysWithinItsSequence) {
  constexpr int64_t kLength = 40, kBad = 30, kFeatures = 16;
  const Tensor query = random_tensor({2 * kLength, kFeatures}, 1);
  const Tensor key = random_tensor({2 * kLength, kFeatures}, 2);
  const Tensor value = random_tensor({2 * kLength, kFeatures}, 3);
  Tensor bad = value.clone();
  for (float& x : bad.slice_rows(kBad, 1).values()) x = std::numeric_limits<float>::quiet_NaN();
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.causal = causal,
                                   .query_offsets = Offsets::uniform(2, kLength),
                                   .key_offsets = Offsets::uniform(2, kLength)};
    const Tensor expected = multihead_attention(query, key, value, 2, options).output.value();
    const Tensor found = multihead_attention(query, key, bad, 2, options).output.value();
    EXPECT_EQ(
        std::memcmp(found.slice_rows(kLength, kLength).data(), expected.slice_rows(kLength, kLength).data(),
                    expected.slice_rows(kLength, kLength).bytes()),
        0)
        << "the other sequence, causal " << causal;
    for (int64_t row = kBad; row < kLength; ++row) {
      for (const float x : found.slice_rows(row, 1).values()) EXPECT_TRUE(std::isnan(x)) << "row " << row;
    }
  }
}

}  // namespace

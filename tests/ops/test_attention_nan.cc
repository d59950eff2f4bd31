// Non-finite keys and values: they stay within their sequence, and hidden keys change nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "qkv/ops/attention.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

constexpr int64_t kLength = 40, kBad = 30, kFeatures = 16;

bool same_bits(const Tensor& a, const Tensor& b) { return std::memcmp(a.data(), b.data(), b.bytes()) == 0; }

TEST(AttentionNan, StaysWithinItsSequence) {
  const Tensor query = random_tensor({2 * kLength, kFeatures}, 1);
  const Tensor key = random_tensor({2 * kLength, kFeatures}, 2);
  const Tensor value = random_tensor({2 * kLength, kFeatures}, 3);
  Tensor bad = value.clone();
  Tensor bad_row = bad.slice_rows(kBad, 1);
  for (float& x : bad_row.values()) x = std::numeric_limits<float>::quiet_NaN();
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.causal = causal,
                                   .query_offsets = Offsets::uniform(2, kLength),
                                   .key_offsets = Offsets::uniform(2, kLength)};
    const Tensor expected = multihead_attention(query, key, value, 2, options).output.value();
    const Tensor found = multihead_attention(query, key, bad, 2, options).output.value();
    EXPECT_TRUE(same_bits(found.slice_rows(kLength, kLength), expected.slice_rows(kLength, kLength)))
        << "the other sequence, causal " << causal;
    for (int64_t row = kBad; row < kLength; ++row) {
      for (const float x : found.slice_rows(row, 1).values()) EXPECT_TRUE(std::isnan(x)) << "row " << row;
    }
  }
}

// A sequence of more than a tile, one of few queries, and one of a query.
TEST(AttentionNan, MaskedKeysHaveNoEffect) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int64_t queries : {int64_t{100}, int64_t{3}, int64_t{1}}) {
      constexpr int64_t kKeys = 100, kHidden = 97;
      const Tensor query = random_tensor({queries, kFeatures}, 1);
      const Tensor value = random_tensor({kKeys, kFeatures}, 2), key = random_tensor({kKeys, kFeatures}, 3);
      Tensor bad_key = key.clone();
      Tensor hidden = bad_key.slice_rows(kHidden, 1);
      std::ranges::fill(hidden.values(), bad);
      const AttentionOptions causal{.causal = true, .alignment = Alignment::first_key};
      const auto run = [&](const Tensor& keys, const AttentionOptions& options) {
        return multihead_attention(query, keys, value, 2, options).output.value();
      };
      // Rows from the hidden key on see it where causality alone hides it.
      const int64_t rows = std::min(queries, kHidden);
      EXPECT_TRUE(same_bits(run(bad_key, causal).slice_rows(0, rows), run(key, causal).slice_rows(0, rows)))
          << "causal, " << queries << " queries";
      std::vector<uint8_t> allowed(kKeys, 1);
      allowed[kHidden] = 0;
      const AttentionOptions masked{.keep = Tensor::from(allowed, {1, 1, 1, kKeys})};
      EXPECT_TRUE(same_bits(run(bad_key, masked), run(key, masked))) << "keep, " << queries << " queries";
    }
  }
}

}  // namespace

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/search/alignment.h"

namespace qkv::search {
namespace {

using Positions = std::vector<int32_t>;

// Two layers of one head: the first rests on the end token (id 9), the second reverses three tokens.
Capture reversing() {
  return {.source = {1, 2, 3, 9},
          .target_inputs = {0, 4, 5, 6},
          .target_outputs = {4, 5, 6, 9},
          .log_probabilities = {},
          .attentions = {{"decoder.layers.0.encoder_attn",
                          Tensor::from(std::vector<float>{0.1f, 0, 0, 0.9f, 0.1f, 0, 0, 0.9f, 0.1f, 0, 0,
                                                          0.9f, 0.1f, 0, 0, 0.9f},
                                       {1, 4, 4})},
                         {"decoder.layers.1.self_attn", Tensor::full({1, 4, 4}, 0.25f)},
                         {"decoder.layers.1.encoder_attn",
                          Tensor::from(std::vector<float>{0, 0, 0.9f, 0.1f, 0, 0.9f, 0, 0.1f, 0.9f, 0, 0,
                                                          0.1f, 0.7f, 0, 0, 0.3f},
                                       {1, 4, 4})}}};
}

TEST(Alignment, FollowsHeadsThatTellTokensApart) {
  EXPECT_EQ(align(reversing(), 9), (Positions{2, 1, 0, 3}));
  // Whichever the layer.
  Capture swapped = reversing();
  std::swap(swapped.attentions[0].weights, swapped.attentions[2].weights);
  EXPECT_EQ(align(swapped, 9), (Positions{2, 1, 0, 3}));
}

TEST(Alignment, OnlyTheEndIsAlignedToTheEnd) {
  Capture resting = reversing();
  resting.attentions.pop_back();  // each token has its largest weight on the end token
  EXPECT_EQ(align(resting, 9), (Positions{0, 0, 0, 3}));
  resting.source = resting.target_outputs = {9, 9, 9, 9};
  EXPECT_EQ(align(resting, 9), (Positions{3, 3, 3, 3}));
  resting.source = {1, 2, 3, 4};  // without an end token
  EXPECT_EQ(align(resting, 9), (Positions{3, 3, 3, 3}));
}

TEST(Alignment, NeedsCrossAttention) {
  Capture none = reversing();
  none.attentions = {none.attentions[1]};
  EXPECT_THROW(align(none, 9), UsageError);
}

}  // namespace
}  // namespace qkv::search

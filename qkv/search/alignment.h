#pragma once
// Alignment: the source token that a target token came from.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"

namespace qkv::search {

// The layer whose cross attention aligns best: the last but one, or the only one (Garg et al. 2019, section
// 4.1).
int64_t alignment_layer(const models::TransformerConfig& config);

// For each token of the target, </s> included, the position of the source token with the largest
// cross-attention weight where that token is predicted: the mean of the heads of alignment_layer(). Ids with
// their </s>; throws what capture() throws.
std::vector<int32_t> align(const models::Transformer& model, std::span<const int32_t> source,
                           std::span<const int32_t> target);

}  // namespace qkv::search

#pragma once
// Which source token a target token came from.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"

namespace qkv::decode {

// For each token of the target, </s> included, the position of the source token that cross attention weighs
// most where it predicts that token: the mean of the heads of the last layer but one (of the only one), which
// is where alignments are best (Garg et al. 2019, section 4.1). Ids with their </s>; throws what capture()
// throws.
std::vector<int32_t> align(const models::Transformer& model, std::span<const int32_t> source,
                           std::span<const int32_t> target);

}  // namespace qkv::decode

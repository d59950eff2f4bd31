#pragma once
// Word alignment: the source token from which each target token was translated.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"
#include "qkv/search/capture.h"

namespace qkv::search {

// The layer whose cross attention aligns best: the penultimate one, or the only one (Garg et al. 2019,
// section 4.1).
int64_t alignment_layer(const models::TransformerConfig& config);

// For each target token, </s> included, the position of the source token with the largest cross-attention
// weight at the step that predicts it, averaged over the heads of alignment_layer(). Both sequences end in
// </s>. Throws the errors of capture().
std::vector<int32_t> align(const models::Transformer& model, std::span<const int32_t> source,
                           std::span<const int32_t> target);
// The same of a captured run. Throws UsageError if it does not have the cross attention of that layer.
std::vector<int32_t> align(const Capture& captured, int64_t layer);

}  // namespace qkv::search

#pragma once
// Word alignment: the source token from which each target token was translated.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"
#include "qkv/search/capture.h"

namespace qkv::search {

// The layer whose cross attention the coverage penalty reads: the penultimate one, or the only one (Garg et
// al. 2019, section 4.1).
int64_t coverage_layer(const models::TransformerConfig& config);

// For each target token the position of its source token: that with the largest weight at the step that
// predicts the target token, in the mean of all cross-attention heads of all layers, weighted by the square
// of their mutual information in this sentence (metrics/information.h). So heads that point at a source token
// of each target token count, and heads that rest on one token do not. The end token is aligned to the
// source's, and no other token is. Throws the errors of capture().
std::vector<int32_t> align(const models::Transformer& model, std::span<const int32_t> source,
                           std::span<const int32_t> target);
// The same of a captured run. Throws UsageError if it has no cross attention.
std::vector<int32_t> align(const Capture& captured, int64_t eos_id);

}  // namespace qkv::search

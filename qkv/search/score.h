#pragma once
// The probability of a given output.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"

namespace qkv::search {

// log P(target token | source, preceding target tokens), natural logarithm, for each token of each target:
// teacher forcing, one decoder run for all positions. Targets end in </s>, and sources as in training
// (source_eos); targets have no start token; an empty target has no log-probabilities. Pairs are batched by
// length, at most `batch_tokens` source and target tokens at a time, which does not affect the result. Throws
// UsageError for unequal numbers of sources and targets and for an empty source, DataError for an id outside
// the vocabulary or a sequence longer than the model's positions.
std::vector<std::vector<float>> score(const models::Transformer& model,
                                      std::span<const std::vector<int32_t>> sources,
                                      std::span<const std::vector<int32_t>> targets,
                                      int64_t batch_tokens = 4096);

// The decoder's input for `target`: the start token and all tokens but the last.
std::vector<int32_t> decoder_input(const models::Transformer& model, std::span<const int32_t> target);

}  // namespace qkv::search

#pragma once
// The attention weights of one pair of token sequences.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/transformer.h"
#include "qkv/tensor/tensor.h"

namespace qkv::search {

// One attention of one layer, such as "encoder.layers.0.self_attn", "decoder.layers.1.encoder_attn".
struct CapturedAttention {
  std::string name;
  Tensor weights;  // [heads, queries, keys]; a query's weights sum to 1
};

// Every attention of a model over one sentence pair, in execution order. Position t of the decoder has read
// target_inputs[0..t] and predicts target_outputs[t].
struct Capture {
  std::vector<int32_t> source;           // queries of the encoder, keys of encoder and cross attention
  std::vector<int32_t> target_inputs;    // the start token and the target without its </s>
  std::vector<int32_t> target_outputs;   // the target with its </s>
  std::vector<float> log_probabilities;  // of target_outputs
  std::vector<CapturedAttention> attentions;
};

// Runs the model once. The target ends in </s>, and the source as in training (source_eos). Throws UsageError
// if either is empty, DataError for an id outside the vocabulary or a sequence longer than the model's
// positions.
Capture capture(const models::Transformer& model, std::span<const int32_t> source,
                std::span<const int32_t> target);

}  // namespace qkv::search

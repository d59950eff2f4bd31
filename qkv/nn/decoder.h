#pragma once
// The decoder (Vaswani et al. 2017, section 3.1): an encoder layer that may not look ahead, with attention
// over the encoder's output in its middle.

#include <optional>
#include <vector>

#include "qkv/nn/encoder.h"

namespace qkv::nn {

// The encoder's output: [tokens, d_model] and its sequences.
struct Memory {
  Variable values = {};
  Offsets offsets = {};
};

// What one layer remembers between decoding steps.
struct DecoderLayerState {
  KeyValueCache self = {};
  MemoryKeyValues memory = {};
};

// What a decoder remembers between steps, for hypotheses that have the same number of positions. The
// hypotheses of sentence i are rows rows_of.begin(i) to rows_of.end(i).
struct DecoderState {
  std::vector<DecoderLayerState> layers;
  Offsets memory_offsets;
  Offsets rows_of;
  int64_t length = 0;  // positions so far

  // Row i continues what row parents[i] was; the sentences' rows become new_rows_of.
  void reorder(std::span<const int32_t> parents, const Offsets& new_rows_of);
};

class DecoderLayer {
 public:
  explicit DecoderLayer(const LayerOptions& options);

  // x [tokens, d_model] -> the same. The self-attention is causal whatever the mask says.
  Variable operator()(const Variable& x, const Offsets& offsets, const Memory& memory, Pass& pass,
                      const AttentionMask& memory_mask = {}) const;
  DecoderLayerState start(const Memory& memory) const;
  // One position: x [rows, d_model] -> the same.
  Tensor step(const Tensor& x, DecoderLayerState& layer_state, const DecoderState& state) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  MultiheadAttention self_attn_;
  Residual self_attn_residual_;
  MultiheadAttention encoder_attn_;
  Residual encoder_attn_residual_;
  FeedForward feed_forward_;
  Residual feed_forward_residual_;
};

class Decoder {
 public:
  explicit Decoder(const StackOptions& options);

  Variable operator()(const Variable& x, const Offsets& offsets, const Memory& memory, Pass& pass) const;
  // The state before the first position, one hypothesis a sentence.
  DecoderState start(const Memory& memory) const;
  // One position for each hypothesis: x [rows, d_model] -> the same.
  Tensor step(const Tensor& x, DecoderState& state) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  std::vector<DecoderLayer> layers_;
  std::optional<LayerNorm> layer_norm_;
};

}  // namespace qkv::nn

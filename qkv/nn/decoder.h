#pragma once
// The decoder (Vaswani et al. 2017, section 3.1): an encoder layer that may not look ahead, with attention
// over the encoder's output in its middle. Without that middle (LayerOptions::reads_memory) it is the decoder
// of a language model, which reads nothing but what it has written (Liu et al. 2018; Radford et al. 2018).

#include <optional>
#include <vector>

#include "qkv/nn/encoder.h"

namespace qkv::nn {

// The encoder's output: [tokens, d_model] and its sequences. For a decoder that reads none, only how many
// sequences there are.
struct Memory {
  Variable values = {};
  Offsets offsets = {};
};

// What one layer remembers between decoding steps.
struct DecoderLayerState {
  KeyValueCache self = {};
  MemoryKeyValues memory = {};
};

// What a decoder remembers between steps, of sentences that come and go. The hypotheses of sentence i are
// rows hypothesis_offsets.begin(i) to hypothesis_offsets.end(i).
struct DecoderState {
  std::vector<DecoderLayerState> layers;
  Offsets hypothesis_offsets;
  // The layer whose attention over the memory each step leaves in source_weights: for each row, the weight of
  // each of its memory's tokens, as the mean of the heads. -1: none.
  int64_t watched_layer = -1;
  std::vector<std::vector<float>> source_weights = {};

  // Where the next token of each row stands: i32 [rows].
  Tensor next_positions() const;
  // Takes in the sentences of another state of this decoder, behind those that are there.
  void join(DecoderState new_requests);
  // Row i continues what row parents[i] was; the sentences' rows become new_rows_of. A sentence without rows
  // is forgotten, and those behind it move up.
  void reorder(std::span<const int32_t> parents, const Offsets& new_rows_of);
};

// Which positions a decoder's attentions may read. Its self-attention is causal unless the mask says
// otherwise.
struct DecoderMasks {
  AttentionMask self = {.causal = true};
  AttentionMask memory = {};
};

// Bytes of keys and values that a layer keeps for so many positions of self-attention and so many tokens of
// memory.
int64_t cache_bytes(const LayerOptions& layer, int64_t positions, int64_t memory_tokens);

// What a run of a layer may need beside what it works on.
struct DecoderLayerRun {
  DecoderMasks masks = {};
  KeyValueCache* cache = nullptr;  // where the self-attention leaves its keys and values; null: nowhere
};

// Of a step likewise.
struct DecoderLayerStep {
  Tensor relative_bias = {};                           // as MultiheadAttention::self_step has it
  std::vector<std::vector<float>>* weights = nullptr;  // as MultiheadAttention::cross_step has them
};

class DecoderLayer {
 public:
  explicit DecoderLayer(const LayerOptions& options);

  // x [tokens, d_model] -> the same.
  Variable operator()(const Variable& x, const Offsets& offsets, const Memory& memory,
                      ForwardContext& context, const DecoderLayerRun& options = {}) const;
  DecoderLayerState start(const Memory& memory) const;
  // One position: x [rows, d_model] -> the same.
  Tensor step(const Tensor& x, DecoderLayerState& layer_state, const Offsets& hypothesis_offsets,
              const DecoderLayerStep& options = {}) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  struct CrossAttention {
    MultiheadAttention attention;
    Residual residual;
  };
  // The three sublayers, with self(rows) and cross(rows) as the functions of the first two.
  template <class Self, class Cross>
  Variable run(const Variable& x, ForwardContext& context, const Self& self, const Cross& cross) const;

  MultiheadAttention self_attn_;
  Residual self_attn_residual_;
  std::optional<CrossAttention> encoder_attn_;
  FeedForward feed_forward_;
  Residual feed_forward_residual_;
};

class Decoder {
 public:
  explicit Decoder(const StackOptions& options);

  // x [tokens, d_model] -> the same. Relative positions, where the stack has them, take the place of the self
  // mask's relative_bias.
  Variable operator()(const Variable& x, const Offsets& offsets, const Memory& memory,
                      ForwardContext& context, const DecoderMasks& masks = {}) const;
  // The state before the first position, one hypothesis a sentence.
  DecoderState start(const Memory& memory) const;
  // The first positions of each sequence at once, of a decoder without memory: x [tokens, d_model] -> the
  // same. `state` is new.
  Tensor read(const Tensor& x, const Offsets& offsets, DecoderState& state, ForwardContext& context) const;
  // One position for each hypothesis: x [rows, d_model] -> the same.
  Tensor step(const Tensor& x, DecoderState& state) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  // Of the self-attention, for sequences of at most n positions; undefined where positions are others.
  Variable relative_bias(int64_t n) const;
  DecoderMasks with_relative_bias(DecoderMasks masks, int64_t n) const;

  std::optional<RelativePositions> relative_positions_;
  std::vector<DecoderLayer> layers_;
  std::optional<Norm> layer_norm_;
};

}  // namespace qkv::nn

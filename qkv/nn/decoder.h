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

// What one layer keeps between decoding steps.
struct DecoderLayerState {
  KeyValueCache self = {};
  MemoryKeyValues memory = {};
};

// What a decoder keeps between steps, of sequences that come and go. The hypotheses of sequence i are rows
// hypothesis_offsets.begin(i) to hypothesis_offsets.end(i).
struct DecoderState {
  std::vector<DecoderLayerState> layers;
  Offsets hypothesis_offsets;
  // The layer whose attention over the memory each step leaves in source_weights: for each row, the weight of
  // each of its memory's tokens, as the mean of the heads. -1: none.
  int64_t watched_layer = -1;
  std::vector<std::vector<float>> source_weights = {};

  // Where the next token of each row stands: i32 [rows].
  Tensor next_positions() const;
  // Takes in the sequences of another state of this decoder, behind those that are there.
  void join(DecoderState others);
  // The inverse: a state for each sequence, in their order; this one is then empty. Of a decoder without
  // memory.
  std::vector<DecoderState> split();
  // Whether share(positions) is possible (KeyValueCache::can_share).
  bool can_share(int64_t positions) const;
  // A state of one sequence and row that has read the first positions of this one's first row, in the same
  // memory. Of a decoder without memory. Throws UsageError where can_share() says no.
  DecoderState share(int64_t positions) const;
  // Bytes of keys and values of self-attention, those that are shared among them.
  int64_t bytes() const;
  // Row i continues the former row parents[i]; the sequences' rows become new_rows_of. A sequence without
  // rows is forgotten, and those behind it move up.
  void reorder(std::span<const int32_t> parents, const Offsets& new_rows_of);
};

// Which positions a decoder's attentions may read. Its self-attention is causal unless the mask says
// otherwise.
struct DecoderMasks {
  AttentionMask self = {.causal = true};
  AttentionMask memory = {};
};

// The most bytes of keys and values that a layer keeps for a sequence with so many positions of
// self-attention, each row's own counted, and so many tokens of memory.
int64_t cache_bytes(const LayerOptions& layer, int64_t positions, int64_t memory_tokens, DType dtype);

// What a run of a layer may need beside what it works on.
struct DecoderLayerRun {
  DecoderMasks masks = {};
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
  DecoderLayerState start(const Memory& memory, DType dtype = DType::f32) const;
  // The next positions of each row, of a layer without memory, as MultiheadAttention::self_read has them.
  Tensor read(const Tensor& x, const Offsets& offsets, DecoderLayerState& layer_state,
              const Tensor& relative_bias) const;
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

  int64_t window_;
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
  // The state before the first position, one row a sequence. dtype: of the caches, f32 or bf16.
  DecoderState start(const Memory& memory, DType dtype = DType::f32) const;
  // The next positions of each row, of a decoder without memory: x [tokens, d_model] -> the same; row i has
  // those from offsets.begin(i) on. A position's bits do not depend on how many are read at once.
  Tensor read(const Tensor& x, const Offsets& offsets, DecoderState& state) const;
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

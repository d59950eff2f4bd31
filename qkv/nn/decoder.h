#pragma once
// The decoder (Vaswani et al. 2017, section 3.1): layers of causal self-attention, cross attention over the
// encoder output, and feed-forward. Without cross attention (LayerOptions::reads_memory) it is the decoder of
// a language model (Liu et al. 2018; Radford et al. 2018).

#include <optional>
#include <span>
#include <vector>

#include "qkv/nn/encoder.h"

namespace qkv::nn {

// The encoder output, [tokens, d_model], and its sequences. For a decoder without cross attention, only the
// number of sequences.
struct Memory {
  Variable values = {};
  Offsets offsets = {};
};

// The decoding state of one layer.
struct DecoderLayerState {
  KeyValueCache self = {};
  MemoryKeyValues memory = {};
};

// The decoding state of a decoder, for sequences that are added and removed. The hypotheses of sequence i are
// rows hypothesis_offsets.begin(i) to hypothesis_offsets.end(i).
struct DecoderState {
  std::vector<DecoderLayerState> layers;
  Offsets hypothesis_offsets;
  // The layer whose cross-attention weights each step writes to source_weights: for each row, one weight per
  // memory token, averaged over the heads. -1: none.
  int64_t watched_layer = -1;
  std::vector<std::vector<float>> source_weights = {};

  // The position of each row's next token: i32 [rows].
  Tensor next_positions() const;
  // Appends the sequences of other states of this decoder, which become empty. If it throws, nothing changes.
  void join(std::span<DecoderState* const> others);
  void join(DecoderState others);
  // The inverse of join(): one state per sequence, in order; this one becomes empty. Decoders without memory
  // only.
  std::vector<DecoderState> split();
  // Whether share(positions) is possible (KeyValueCache::can_share).
  bool can_share(int64_t positions) const;
  // A state of one sequence with one row that has read the first positions of this one's first row, in the
  // same memory. Decoders without memory only. Throws UsageError unless can_share().
  DecoderState share(int64_t positions) const;
  // Bytes of the self-attention keys and values, including shared ones.
  int64_t bytes() const;
  // Row i continues the former row parents[i]; the sequences' rows become new_rows_of. A sequence without
  // rows is removed; later ones move up.
  void reorder(std::span<const int32_t> parents, const Offsets& new_rows_of);
};

// The masks of a decoder's attentions. Self-attention is causal unless its mask says otherwise.
struct DecoderMasks {
  AttentionMask self = {.causal = true};
  AttentionMask memory = {};
};

// Upper bound of the bytes of keys and values for a sequence that uses self-attention's cache so and has this
// number of memory tokens.
int64_t cache_bytes(const StackOptions& stack, const CacheUse& use, int64_t memory_tokens, DType dtype,
                    Device device = Device::cpu);

// Optional arguments of a layer's run.
struct DecoderLayerRun {
  DecoderMasks masks = {};
};

// Optional arguments of a layer's step.
struct DecoderLayerStep {
  Tensor relative_bias = {};                           // MultiheadAttention::self_step()
  std::vector<std::vector<float>>* weights = nullptr;  // MultiheadAttention::cross_step()
};

class DecoderLayer {
 public:
  explicit DecoderLayer(const LayerOptions& options);

  // x [tokens, d_model] -> [tokens, d_model].
  Variable operator()(const Variable& x, const Offsets& offsets, const Memory& memory,
                      ForwardContext& context, const DecoderLayerRun& options = {}) const;
  DecoderLayerState start(const Memory& memory, DType dtype = DType::f32) const;
  // Prefill of a layer without memory: MultiheadAttention::self_read().
  Tensor read(const Tensor& x, const Offsets& offsets, DecoderLayerState& layer_state,
              const Tensor& relative_bias, bool causal = true) const;
  // One position: x [rows, d_model] -> [rows, d_model].
  Tensor step(const Tensor& x, DecoderLayerState& layer_state, const Offsets& hypothesis_offsets,
              const DecoderLayerStep& options = {}) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  struct CrossAttention {
    MultiheadAttention attention;
    Residual residual;
  };
  // The three sublayers; self(rows) and cross(rows) compute the attentions.
  template <class Self, class Cross>
  Variable run(const Variable& x, const Offsets& offsets, ForwardContext& context, const Self& self,
               const Cross& cross) const;

  Sublayers sublayers_;
  std::optional<CrossAttention> encoder_attn_;
};

class Decoder {
 public:
  explicit Decoder(const StackOptions& options);

  // x [tokens, d_model] -> [tokens, d_model]. If the stack has relative positions, they replace the self
  // mask's relative_bias.
  Variable operator()(const Variable& x, const Offsets& offsets, const Memory& memory,
                      ForwardContext& context, const DecoderMasks& masks = {}) const;
  // The state before the first position, one row per sequence. dtype: of the caches, f32 or bf16.
  DecoderState start(const Memory& memory, DType dtype = DType::f32) const;
  // Prefill, for a decoder without memory: the next positions of each row, x [tokens, d_model] -> [tokens,
  // d_model]; row i has positions from offsets.begin(i) on. Causal, and a position's bits do not depend on
  // how many are read at once; or else the positions that are read together attend to each other.
  Tensor read(const Tensor& x, const Offsets& offsets, DecoderState& state, bool causal = true) const;
  // One decoding step: x [rows, d_model] -> [rows, d_model].
  Tensor step(const Tensor& x, DecoderState& state) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  // Throws UsageError unless the state has this decoder's number of layers.
  void require_own(const DecoderState& state) const;
  // For the self-attention of sequences of at most n positions; undefined without relative positions.
  Variable relative_bias(int64_t n) const;
  DecoderMasks with_relative_bias(DecoderMasks masks, int64_t n) const;

  std::optional<RelativePositions> relative_positions_;
  DType activations_ = DType::f32;
  std::vector<DecoderLayer> layers_;
  std::optional<Norm> layer_norm_;
};

}  // namespace qkv::nn

#pragma once
// What an encoder-decoder Transformer is made of.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/nn/decoder.h"
#include "qkv/nn/positions.h"

namespace qkv::models {

enum class Tying {
  none,       // source, target and output have tables of their own
  two_way,    // target embeddings are the output projection
  three_way,  // and the source embeddings too: one joint vocabulary
  inputs,     // source and target share a table, the output has its own
};

struct TransformerConfig {
  int64_t source_vocabulary = 0, target_vocabulary = 0;
  int64_t d_model = 512;
  int64_t encoder_layers = 6, decoder_layers = 6;
  int64_t heads = 8;
  int64_t d_k = 0, d_v = 0;  // per head; 0: d_model / heads
  int64_t d_ff = 2048;
  Activation activation = Activation::relu;
  bool gated = false;  // the feed-forward
  nn::NormPlacement norm = nn::NormPlacement::post;
  nn::NormKind norm_kind = nn::NormKind::layer;
  float epsilon = 1e-5f;    // of norms
  bool bias = true;         // in attention and feed-forward
  bool output_bias = true;  // of the logits
  nn::PositionKind positions = nn::PositionKind::sinusoidal_halves;
  int64_t max_positions = 512;
  int64_t position_buckets = 32, position_max_distance = 128;  // of relative positions
  Tying tying = Tying::three_way;
  bool scale_embedding = true;  // by sqrt(d_model)
  bool scale_attention = true;  // scores by 1 / sqrt(d_k)
  bool scale_output = false;    // what the logits are made of by 1 / sqrt(d_model)
  bool final_norm = false;      // after each stack; pre-norm always has it
  float dropout = 0.1f;         // after each sublayer
  float embedding_dropout = 0.1f;
  float attention_dropout = 0;
  float activation_dropout = 0;
  int64_t eos_id = 0, pad_id = 0, decoder_start_id = 0;

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  nn::StackOptions encoder_stack() const;
  nn::StackOptions decoder_stack() const;
  // Whether source and target embeddings are one table.
  bool shares_embeddings() const { return tying == Tying::three_way || tying == Tying::inputs; }
  // The most tokens of a text: max_positions; nothing where only distances count or nothing does.
  std::optional<int64_t> most_tokens() const;
};

// "tiny", "small", "base" or "big": base and big are the paper's (Table 3). Throws UsageError naming the
// known ones.
TransformerConfig preset(std::string_view name);
std::vector<std::string> preset_names();

// Sets a field by its name ("d_model", "dropout", "norm") from text ("512", "0.3", "pre"). Returns whether
// there is such a field; throws UsageError for a value it cannot take.
bool set_field(TransformerConfig& config, std::string_view name, std::string_view value);
// The fields by name, as set_field takes them, in the order of the struct: what help texts and files list.
std::vector<std::pair<std::string, std::string>> fields(const TransformerConfig& config);

}  // namespace qkv::models

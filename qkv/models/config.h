#pragma once
// The configuration of an encoder-decoder Transformer.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/nn/decoder.h"
#include "qkv/nn/positions.h"

namespace qkv::models {

enum class Tying {
  none,       // source, target and output have separate tables
  two_way,    // target embeddings and output projection are tied
  three_way,  // source embeddings too; requires a joint vocabulary
  inputs,     // source and target share a table, the output is separate
};

struct TransformerConfig {
  int64_t source_vocabulary = 0, target_vocabulary = 0;  // the former is 0 for audio
  int64_t d_model = 512;
  int64_t encoder_layers = 6, decoder_layers = 6;
  int64_t heads = 8;
  int64_t decoder_heads = 0;  // 0: heads
  int64_t d_k = 0, d_v = 0;   // per head; 0: d_model / heads
  int64_t d_ff = 2048;
  int64_t decoder_d_ff = 0;  // 0: d_ff
  Activation activation = Activation::relu;
  bool gated = false;  // gated feed-forward
  nn::NormPlacement norm = nn::NormPlacement::post;
  nn::NormKind norm_kind = nn::NormKind::layer;
  float epsilon = 1e-5f;    // of norms
  bool bias = true;         // in attention and feed-forward
  bool key_bias = true;     // with it: of keys
  bool output_bias = true;  // of the logits
  nn::PositionKind positions = nn::PositionKind::sinusoidal_halves;
  int64_t max_positions = 512;
  int64_t first_position = 0;                                  // the table row of position 0 (BART: 2)
  int64_t position_buckets = 32, position_max_distance = 128;  // of relative positions
  Tying tying = Tying::three_way;
  bool scale_embedding = true;  // by sqrt(d_model)
  bool embedding_norm = false;  // layer norm of embeddings and positions (BART)
  bool scale_attention = true;  // scores by 1 / sqrt(d_k)
  bool scale_output = false;    // scale the output projection's input by 1 / sqrt(d_model)
  bool final_norm = false;      // norm after each stack; pre-norm always has it
  float dropout = 0.1f;         // after each sublayer
  float embedding_dropout = 0.1f;
  float attention_dropout = 0;
  float activation_dropout = 0;
  float drop_path = 0;  // of the last layer of each stack: nn::StackOptions::drop_path
  int64_t eos_id = 0, pad_id = 0, decoder_start_id = 0;
  DType activations = DType::f32;  // of both stacks (nn::StackOptions)
  bool source_eos = true;  // sources end in eos_id; false in models trained without it, such as OpenNMT's
  // Sources of audio (Whisper, Radford et al. 2022): features of a frame, and positions of the encoder, each
  // of two frames. 0: sources are tokens.
  int64_t mel_bins = 0;
  int64_t source_positions = 0;

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  nn::StackOptions encoder_stack() const;
  nn::StackOptions decoder_stack() const;
  // Whether source and target embeddings share a table.
  bool shares_embeddings() const { return tying == Tying::three_way || tying == Tying::inputs; }
  bool reads_audio() const { return mel_bins > 0; }
  // The maximum length of a text in tokens: max_positions; nothing for relative positions or none.
  std::optional<int64_t> max_tokens() const;
};

// "tiny", "small", "base" or "big"; base and big are those of Vaswani et al. 2017, table 3. Throws UsageError
// listing the known names.
TransformerConfig preset(std::string_view name);
std::vector<std::string> preset_names();

// Sets a field by name ("d_model", "dropout", "norm") from text ("512", "0.3", "pre"). Returns false for an
// unknown field; throws UsageError for an invalid value.
bool set_field(TransformerConfig& config, std::string_view name, std::string_view value);
// All fields as name and text, in the order of the struct, for help texts and files.
std::vector<std::pair<std::string, std::string>> fields(const TransformerConfig& config);

}  // namespace qkv::models

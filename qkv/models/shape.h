#pragma once
// Sizes of models with one stack of blocks, to be trained from nothing: encoders, decoders, image encoders.
// (Encoder-decoders: qkv/models/config.h.)

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"

namespace qkv::models {

struct ModelShape {
  int64_t layers = 4;
  int64_t d_model = 256;
  int64_t heads = 4;      // d_k = d_v = d_model / heads
  int64_t key_heads = 0;  // of keys and values, a divisor of heads (llama()); 0: heads
  int64_t d_ff = 1024;
  // Each feed-forward is a mixture of experts of inner width d_ff (llama()); 0: none.
  int64_t experts = 0, experts_per_token = 2;
  int64_t max_positions = 512;  // maximum length of a text, in tokens
  float dropout = 0.1f;         // of the embeddings and after each sublayer
  float attention_dropout = 0.1f;
  float drop_path = 0;  // of the last layer: nn::StackOptions::drop_path

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// The miniatures of Turc et al. 2019, table 1, and BERT-base (Devlin et al. 2019): "tiny" (2 layers of 128),
// "mini" (4 of 256), "small" (4 of 512), "medium" (8 of 512), "base" (12 of 768). Throws UsageError listing
// the known names.
ModelShape shape_preset(std::string_view name);
std::vector<std::string> shape_preset_names();

// Sets a field by name ("d_model") from text. Returns false for an unknown field; throws UsageError for an
// invalid value.
bool set_field(ModelShape& shape, std::string_view name, std::string_view value);
// All fields as name and text, in the order of the struct.
std::vector<std::pair<std::string, std::string>> fields(const ModelShape& shape);

// BERT's blocks (Devlin et al. 2019), without heads: set them in the result.
TextEncoderConfig bert(const ModelShape& shape, int64_t vocabulary);
// GPT-2's (Radford et al. 2019). The ids may be negative: none.
LanguageModelConfig gpt2(const ModelShape& shape, int64_t vocabulary, int32_t bos_id, int32_t eos_id);
// LLaMA's (Touvron et al. 2023): RMS norms, rotary positions, a gated feed-forward, no biases. With experts:
// Mixtral's (Jiang et al. 2024). Likewise.
LanguageModelConfig llama(const ModelShape& shape, int64_t vocabulary, int32_t bos_id, int32_t eos_id);
// ViT's (Dosovitskiy et al. 2021), for square images of `side` pixels, with a classifier.
ImageEncoderConfig vit(const ModelShape& shape, int64_t channels, int64_t side, int64_t patch,
                       std::vector<std::string> labels);

}  // namespace qkv::models

#pragma once
// Common to CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023): two pre-norm encoders, of texts and of
// images, whose vectors are in one space.

#include <string>

#include "qkv/models/hub/family.h"

namespace qkv::models {

// The fields of both encoders, and transformers' defaults of the blocks.
struct BlockDefaults {
  int64_t d_model, d_ff, heads;
  const char* activation;
  double epsilon;
};
template <class Config>
void dual_encoder_fields(const Fields& fields, Described<Config>& model, const BlockDefaults& defaults) {
  nn::LayerOptions& layer = model.layer;
  fields("hidden_size", layer.d_model, defaults.d_model);
  fields("intermediate_size", layer.d_ff, defaults.d_ff);
  fields("num_hidden_layers", model.layers, 12);
  fields("num_attention_heads", layer.heads, defaults.heads);
  fields("hidden_act", layer.activation, defaults.activation);
  fields("layer_norm_eps", layer.epsilon, defaults.epsilon);
  fields("attention_dropout", layer.attention_dropout, 0);
  // Of the beginning of training, and of OpenAI's first folders.
  fields.irrelevant("initializer_factor dropout tie_word_embeddings");
}

struct TextDefaults {
  BlockDefaults blocks;
  int64_t vocabulary, max_positions;
};
void dual_text_fields(const Fields& fields, Described<TextEncoderConfig>& model,
                      const TextDefaults& defaults);
void dual_image_fields(const Fields& fields, Described<ImageEncoderConfig>& model,
                       const BlockDefaults& blocks, int64_t patch);

Described<TextEncoderConfig> dual_text_base();
Described<ImageEncoderConfig> dual_image_base();

// Without the rules of the heads.
WeightMap dual_text_map();
WeightMap dual_image_map(const ImageEncoderConfig& config);

}  // namespace qkv::models

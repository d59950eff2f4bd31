#pragma once
// What a family's file must keep of a configuration.

#include <string>
#include <utility>
#include <vector>

#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"

namespace qkv::models {

// The settings that affect the results of a trained model, as name ("decoder.layers.3.window") and text.
// Omitted are rates of dropout, and settings without meaning beside others (the rotary base of learned
// positions). Numbers that default to others (key_heads) are replaced by them. Two configurations whose
// settings differ have different settings at the same index.
using Settings = std::vector<std::pair<std::string, std::string>>;

Settings settings_of(const LanguageModelConfig& config);
Settings settings_of(const TextEncoderConfig& config);
Settings settings_of(const ImageEncoderConfig& config);
Settings settings_of(TransformerConfig config);

// The options with key_heads, d_k and d_v that are not 0.
nn::LayerOptions resolved(nn::LayerOptions layer);

}  // namespace qkv::models

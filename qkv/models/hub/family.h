#pragma once
// The registry of Hugging Face families: names of configuration fields and tensors. A family is one file in
// families/ and an entry in registry.cc; see docs/add-a-family.md.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/weight_map.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"

namespace qkv::models {

// A family of one kind of model.
template <class Config>
struct FamilyOf {
  std::string_view model_type;  // as in config.json
  // Reads a configuration. Throws DataError for unknown fields and unsupported values.
  Config (*parse)(const ConfigReader& reader);
  // The inverse. Throws UsageError for a configuration that the family's fields cannot express.
  ConfigWriter (*serialize)(const Config& config);
  // The location of each parameter in the family's files.
  WeightMap (*weight_map)(const Config& config);
  // If models of several kinds share a model_type: the class in "architectures" that selects this kind;
  // empty: all other classes.
  std::string_view own_class = {};
};

using LanguageFamily = FamilyOf<LanguageModelConfig>;
using EncoderFamily = FamilyOf<TextEncoderConfig>;
using ImageFamily = FamilyOf<ImageEncoderConfig>;

// An encoder-decoder is saved in the format of the first family that `fits` it.
struct TranslationFamily : FamilyOf<TransformerConfig> {
  bool (*fits)(const TransformerConfig& config);
};

// Whether sublayers follow each other with a factor of 1, without norms of queries and keys and without
// sinks.
inline bool is_plain_block(const nn::LayerOptions& layer) {
  return layer.order == nn::SublayerOrder::serial && layer.residual_scale == 1 && !layer.attention.sinks &&
         layer.attention.query_key_norm == nn::QueryKeyNorm::none &&
         layer.attention.positions.rotary_features == 0;
}

// Whether, in addition, scores are only scaled by 1 / sqrt(d_k): no other scale, no soft cap, no window. Few
// families have fields for these.
inline bool has_plain_scores(const nn::LayerOptions& layer) {
  return is_plain_block(layer) && !layer.attention.scale && layer.attention.softcap == 0 &&
         layer.attention.window == 0;
}

// The other name of a language model's table, if the output projection is tied to it (WeightRule::also).
inline std::vector<std::string> tied_head(const LanguageModelConfig& config) {
  return config.tied ? std::vector<std::string>{"lm_head"} : std::vector<std::string>();
}

// The last family fits every configuration.
std::span<const TranslationFamily> translation_families();
std::span<const LanguageFamily> language_families();
std::span<const EncoderFamily> encoder_families();
std::span<const ImageFamily> image_families();

// The family of a model_type; null if unknown.
template <class Family>
const Family* find_family(std::span<const Family> families, std::string_view model_type) {
  const auto found = std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace qkv::models

#pragma once
// The registry of Hugging Face families: the names that each has for its settings and its tensors. A family
// is one file in families/ and its entry in the list of registry.cc; docs/add-a-family.md walks through one.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

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
  std::string_view model_type;  // as config.json spells it
  // The configuration that a config.json describes. Throws DataError for fields that are unknown or have a
  // value that nothing here computes.
  Config (*parse)(const ConfigReader& reader);
  // The inverse. Throws UsageError for a configuration that the family's fields cannot express.
  ConfigWriter (*serialize)(const Config& config);
  // Where a file of such a model has each parameter.
  WeightMap (*weight_map)(const Config& config);
  // Where models of several kinds share a model_type: the class that "architectures" names for those of this
  // kind; empty: all other classes.
  std::string_view own_class = {};
};

using LanguageFamily = FamilyOf<LanguageModelConfig>;
using EncoderFamily = FamilyOf<TextEncoderConfig>;
using ImageFamily = FamilyOf<ImageEncoderConfig>;

// Encoder-decoders are saved by the first family that `fits` them.
struct TranslationFamily : FamilyOf<TransformerConfig> {
  bool (*fits)(const TransformerConfig& config);
};

// The last one fits every configuration.
std::span<const TranslationFamily> translation_families();
std::span<const LanguageFamily> language_families();
std::span<const EncoderFamily> encoder_families();
std::span<const ImageFamily> image_families();

// The family of a model_type; null where there is none.
template <class Family>
const Family* find_family(std::span<const Family> families, std::string_view model_type) {
  const auto found = std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace qkv::models

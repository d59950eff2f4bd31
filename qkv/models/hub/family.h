#pragma once
// The registry of Hugging Face families: what each calls its settings and its tensors. A family is one file
// in families/, and one line in registry.cc; docs/add-a-family.md walks through one.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/stored_names.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"

namespace qkv::models {

// A family of one kind of model. `read` makes a configuration out of a config.json, and throws DataError for
// fields that it does not know; `write` is its inverse, and throws UsageError for what the family's words
// cannot say; `names` are the tensors of such a model.
template <class Config>
struct FamilyOf {
  std::string_view model_type;  // as config.json spells it
  Config (*read)(const ConfigReader& reader);
  std::string (*write)(const Config& config);
  NameMap (*names)(const Config& config);
  // Where models of several kinds have one model_type: the class that "architectures" names for those of this
  // kind; empty: all other classes.
  std::string_view own_class = {};
};

using LanguageFamily = FamilyOf<LanguageModelConfig>;
using EncoderFamily = FamilyOf<TextEncoderConfig>;
using ImageFamily = FamilyOf<ImageEncoderConfig>;

// Encoder-decoders are saved in the words of the first family that `fits` them.
struct TranslationFamily : FamilyOf<TransformerConfig> {
  bool (*fits)(const TransformerConfig& config);
};

// The last one fits every configuration.
std::span<const TranslationFamily> translation_families();
std::span<const LanguageFamily> language_families();
std::span<const EncoderFamily> encoder_families();
std::span<const ImageFamily> image_families();

// The one of a model_type; null where there is none.
template <class Family>
const Family* find_family(std::span<const Family> families, std::string_view model_type) {
  const auto found = std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

// The files of families/.
TranslationFamily marian_family();
TranslationFamily qkv_family();
TranslationFamily t5_family();
LanguageFamily gpt2_family();
LanguageFamily llama_family();
EncoderFamily bert_family();
EncoderFamily roberta_family();
EncoderFamily distilbert_family();
EncoderFamily t5_encoder_family();
ImageFamily vit_family();
ImageFamily deit_family();

}  // namespace qkv::models

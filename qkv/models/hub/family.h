#pragma once
// The registry of Hugging Face families: names of configuration fields and tensors. A family is one file in
// families/ and an entry in registry.cc; see docs/add-a-family.md.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/hub/config_fields.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/weight_map.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"

namespace qkv::models {

// A class of transformers and the heads that its models have.
struct ModelClass {
  std::string name = {};
  bool pooler = false, masked_language = false, next_sentence = false, projection = false,
       distillation_classifier = false;
  ClassificationTarget labelled = ClassificationTarget::nothing;  // images count as texts

  bool operator==(const ModelClass&) const = default;
};

// A configuration as a table sees it: the options of a layer, and how many layers there are. The
// configuration's own stack and embedding width follow from them; an encoder-decoder has neither. A table of
// layers that differ sets the stack itself.
template <class Config>
struct Described {
  Config config = {};
  nn::LayerOptions layer = {};
  int64_t layers = 0;
};

// A family of one kind of model.
template <class Config>
struct FamilyOf {
  std::string_view model_type;  // as in config.json
  // The classes in "architectures" that compute these models. A file without one has the first; the first
  // with the model's heads is written.
  std::vector<ModelClass> classes;
  // All settings for which the family has no field.
  Described<Config> base;
  // The fields of config.json. On writing, key_heads, d_k and d_v of the layer are not 0.
  std::function<void(const Fields& fields, Described<Config>& model)> table;
  // The location of each parameter in the family's files.
  std::function<WeightMap(const Config& config)> weight_map;
  // If models of several kinds share a model_type: the class in "architectures" that selects this kind;
  // empty: all other classes.
  std::string own_class = {};

  // Reads a configuration. Throws DataError for unknown fields and unsupported values.
  Config parse(const ConfigReader& reader) const;
  // The inverse. Throws UsageError naming the first setting that would not be read back, because the family
  // has no field for it.
  ConfigWriter serialize(const Config& config) const;
  // Whether serialize() succeeds.
  bool fits(const Config& config) const;
};

// The name of a classifier's last layer. `of_texts`: where texts are classified.
inline std::string classifier_name(const TextEncoderConfig& config,
                                   const std::string& of_texts = "classifier") {
  if (config.labelled == ClassificationTarget::spans) return "qa_outputs";
  return config.labelled == ClassificationTarget::texts ? of_texts : "classifier";
}

using LanguageFamily = FamilyOf<LanguageModelConfig>;
using EncoderFamily = FamilyOf<TextEncoderConfig>;
using ImageFamily = FamilyOf<ImageEncoderConfig>;
// An encoder-decoder is saved in the format of the first family that fits it.
using TranslationFamily = FamilyOf<TransformerConfig>;

// The family's models as encoders with causal attention: without the output projection, or with a classifier
// of the last token ("LlamaForSequenceClassification").
EncoderFamily as_encoders(const LanguageFamily& family);

// An encoder as a language model, for tables and weight maps of both kinds, with the base's other settings;
// and back.
Described<LanguageModelConfig> as_decoder(const Described<TextEncoderConfig>& model,
                                          const LanguageModelConfig& base = {});
void read_decoder(const Described<LanguageModelConfig>& decoder, Described<TextEncoderConfig>& model);

// The other name of a language model's table, if the output projection is tied to it (WeightRule::also).
inline std::vector<std::string> tied_head(const LanguageModelConfig& config,
                                          const std::string& head = "lm_head") {
  return config.tied ? std::vector<std::string>{head} : std::vector<std::string>();
}

// qkv's own family fits every encoder-decoder. Language models are encoders, too.
std::span<const TranslationFamily> translation_families();
std::span<const LanguageFamily> language_families();
std::span<const EncoderFamily> encoder_families();
std::span<const ImageFamily> image_families();

// For the message about a model_type whose layers are of a kind that is not supported: the kind. Empty for
// others.
std::string other_layers(std::string_view model_type);

// For the message about a folder of an unknown model_type: the kind of its layers, or the family with the
// nearest fields, the fields of config.json and the tensors that it lacks, and those that the folder lacks.
// Empty for a known model_type.
std::string nearest_family(const ConfigReader& reader, std::string_view model_type,
                           const std::filesystem::path& folder);

// The family of a model_type; null if unknown.
template <class Family>
const Family* find_family(std::span<const Family> families, std::string_view model_type) {
  const auto found = std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace qkv::models

#include "qkv/models/folder.h"

#include <string>
#include <utility>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/family.h"
#include "qkv/models/marian.h"
#include "qkv/models/weights.h"

namespace qkv::models {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kGeneration = "generation_config.json";

void require_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw IoError(concat("model folder ", folder.string(), ": ",
                         std::filesystem::exists(folder) ? "it is not a folder" : "there is no such folder"));
  }
}

// The family that a config.json names; null for Marian's layout and qkv's own.
const TranslationFamily* family_named(const ConfigReader& reader) {
  const std::string model_type = reader.text("model_type");
  for (const TranslationFamily& family : translation_families()) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

// The first family in whose words a model can be saved, likewise. int8 weights are qkv's own.
const TranslationFamily* family_fitting(const Transformer& model) {
  for (const TranslationFamily& family : translation_families()) {
    if (family.fits(model.config()) && form_of(model) != WeightForm::int8) return &family;
  }
  return nullptr;
}

ConfigReader open_config(const std::filesystem::path& folder) {
  require_folder(folder);
  const std::filesystem::path path = folder / kConfig;
  return {read_file(path), path.string()};
}

void load_weights(const std::filesystem::path& folder, const Transformer& model, const LoadOptions& options,
                  MapFor use) {
  const TensorFiles files(folder, use);
  const std::filesystem::path config = folder / kConfig;
  const StoredForm says = stored_form(read_file(config), config.string());
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    std::string stored = name;
    for (const std::string& other : tied_names(model.config(), name)) {
      if (!files.contains(stored) && files.contains(other)) stored = other;
    }
    Variable variable = parameter.variable;
    if (!files.contains(stored) && name == "final_logits_bias") {
      variable.set_value(Tensor::zeros(parameter.shape));  // what a file without it means
      return;
    }
    load_parameter(files.file_of(stored, parameter.shape), {.name = stored, .shape = parameter.shape}, says,
                   parameter, options);
  });
}

std::unique_ptr<Transformer> load(const std::filesystem::path& folder, const LoadOptions& options,
                                  MapFor use) {
  auto model = std::make_unique<Transformer>(load_config(folder));
  if (const TranslationFamily* family = family_named(open_config(folder))) {
    const std::filesystem::path config = folder / kConfig;
    load_parameters(
        TensorFiles(folder, use), family->names(model->config()),
        stored_form(read_file(config), config.string()),
        [&](const nn::ParameterVisitor& visitor) { model->visit(visitor); }, options);
  } else {
    load_weights(folder, *model, options, use);
  }
  return model;
}

}  // namespace

TransformerConfig load_config(const std::filesystem::path& folder) {
  const ConfigReader reader = open_config(folder);
  const std::filesystem::path path = folder / kConfig;
  const TranslationFamily* family = family_named(reader);
  if (family == nullptr) return parse_config_json(read_file(path), path.string());
  const TransformerConfig config = family->read(reader);
  try {
    config.validate();
  } catch (const UsageError& error) {
    throw DataError(concat(path.string(), ": ", error.what()));
  }
  return config;
}

std::unique_ptr<Transformer> load_transformer(const std::filesystem::path& folder,
                                              const LoadOptions& options) {
  return load(folder, options, MapFor::writing);
}

TranslationModel load_translation_model(const std::filesystem::path& folder, const LoadOptions& options) {
  TranslationModel model;
  // Nobody writes to it, so that pages which have been packed can be given back.
  model.transformer = load(folder, options, MapFor::reading);
  model.config = model.transformer->config();
  model.tokenizer = std::make_unique<const text::TranslationTokenizer>(text::TranslationTokenizer::load(
      folder, {.source = model.config.source_vocabulary, .target = model.config.target_vocabulary}));
  // Marian's models are made for beams; others mean the likeliest token each time where they say nothing.
  const bool family = family_named(open_config(folder)) != nullptr;
  model.generation = load_generation_defaults(
      folder, family ? GenerationDefaults{.beam = 1, .length_penalty = 1} : GenerationDefaults{});
  return model;
}

WeightForm form_of(const Transformer& model) {
  return form_of([&](const nn::ParameterVisitor& visitor) { model.visit(visitor); });
}

void save_transformer(const std::filesystem::path& folder, const Transformer& model,
                      const GenerationDefaults& defaults) {
  const TranslationFamily* family = family_fitting(model);
  const auto visit = [&](const nn::ParameterVisitor& visitor) { model.visit(visitor); };
  std::vector<io::NamedTensor> tensors;
  if (family != nullptr) {
    tensors = stored_tensors(family->names(model.config()), visit);
  } else {
    visit([&](const std::string& name, const nn::Parameter& parameter) {
      append_parameter(tensors, name, parameter);
    });
  }
  make_writable_folder(folder);
  write_file_atomically(folder / kConfig, family != nullptr
                                              ? with_dtype(family->write(model.config()), form_of(model))
                                              : config_json(model.config(), form_of(model)));
  write_file_atomically(folder / kGeneration, generation_json(model.config(), defaults));
  io::write_safetensors(folder / kWeights, tensors);
}

}  // namespace qkv::models

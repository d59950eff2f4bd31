#include "qkv/models/folder.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/marian.h"
#include "qkv/models/weights.h"

namespace qkv::models {
namespace {

using nlohmann::json;

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kGeneration = "generation_config.json";

void require_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw IoError(concat("model folder ", folder.string(), ": ",
                         std::filesystem::exists(folder) ? "it is not a folder" : "there is no such folder"));
  }
}

void load_weights(const std::filesystem::path& folder, const Transformer& model, const LoadOptions& options,
                  MapFor use) {
  const io::SafetensorsFile file(folder / kWeights, use);
  const std::filesystem::path config = folder / kConfig;
  const StoredForm says = stored_form(read_file(config), config.string());
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    std::string stored = name;
    for (const std::string& other : tied_names(model.config(), name)) {
      if (!file.contains(stored) && file.contains(other)) stored = other;
    }
    Variable variable = parameter.variable;
    if (!file.contains(stored) && name == "final_logits_bias") {
      variable.set_value(Tensor::zeros(parameter.shape));  // what a file without it means
      return;
    }
    load_parameter(file, {.name = stored, .shape = parameter.shape}, says, parameter, options);
  });
}

std::unique_ptr<Transformer> load(const std::filesystem::path& folder, const LoadOptions& options,
                                  MapFor use) {
  auto model = std::make_unique<Transformer>(load_config(folder));
  load_weights(folder, *model, options, use);
  return model;
}

GenerationDefaults load_generation(const std::filesystem::path& path) {
  GenerationDefaults defaults;
  if (!std::filesystem::exists(path)) return defaults;
  try {
    const json object = json::parse(read_file(path));
    defaults.beam = object.value("num_beams", defaults.beam);
    defaults.length_penalty = object.value("length_penalty", defaults.length_penalty);
    defaults.max_length = object.value("max_length", defaults.max_length);
  } catch (const json::exception& error) {
    throw DataError(concat(path.string(), ": expected a JSON object of decoding options: ", error.what()));
  }
  return defaults;
}

std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults) {
  const json object{{"num_beams", defaults.beam},        {"length_penalty", defaults.length_penalty},
                    {"max_length", defaults.max_length}, {"bad_words_ids", {{config.pad_id}}},
                    {"eos_token_id", config.eos_id},     {"forced_eos_token_id", config.eos_id},
                    {"pad_token_id", config.pad_id},     {"decoder_start_token_id", config.decoder_start_id}};
  return object.dump(2) + "\n";
}

}  // namespace

TransformerConfig load_config(const std::filesystem::path& folder) {
  require_folder(folder);
  const std::filesystem::path path = folder / kConfig;
  return parse_config_json(read_file(path), path.string());
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
  model.tokenizer = std::make_unique<const text::MarianTokenizer>(text::MarianTokenizer::load(
      folder, {.source = model.config.source_vocabulary, .target = model.config.target_vocabulary}));
  model.generation = load_generation(folder / kGeneration);
  return model;
}

WeightForm form_of(const Transformer& model) {
  return form_of([&](const nn::ParameterVisitor& visitor) { model.visit(visitor); });
}

void save_transformer(const std::filesystem::path& folder, const Transformer& model,
                      const GenerationDefaults& defaults) {
  make_writable_folder(folder);
  write_file_atomically(folder / kConfig, config_json(model.config(), form_of(model)));
  write_file_atomically(folder / kGeneration, generation_json(model.config(), defaults));
  std::vector<io::NamedTensor> tensors;
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    append_parameter(tensors, name, parameter);
  });
  io::write_safetensors(folder / kWeights, tensors);
}

}  // namespace qkv::models

#include "qkv/models/pretrained.h"

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/family.h"

namespace qkv::models {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kWeights = "model.safetensors";

ConfigReader open_config(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw IoError(concat("model folder ", folder.string(), ": ",
                         std::filesystem::exists(folder) ? "it is not a folder" : "there is no such folder"));
  }
  const std::filesystem::path path = folder / kConfig;
  return {read_file(path), path.string()};
}

template <class Config>
std::string model_types(std::span<const FamilyOf<Config>> families) {
  std::string list;
  for (const FamilyOf<Config>& family : families) list += concat(list.empty() ? "" : ", ", family.model_type);
  return list;
}

template <class Config>
const FamilyOf<Config>* find(std::span<const FamilyOf<Config>> families, std::string_view model_type) {
  for (const FamilyOf<Config>& family : families) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

// What the text that ends a folder's generation may be, where a file of its own says so.
void read_generation(const std::filesystem::path& path, LanguageModelConfig& config) {
  if (!std::filesystem::exists(path)) return;
  const ConfigReader reader(read_file(path), path.string());
  if (reader.has("bos_token_id")) config.bos_ids = reader.ids("bos_token_id");
  if (reader.has("eos_token_id")) config.eos_ids = reader.ids("eos_token_id");
}

template <class Config>
void read_generation(const std::filesystem::path& /*path*/, Config& /*config*/) {}

template <class Model, class Config>
std::unique_ptr<Model> load(const std::filesystem::path& folder, const char* kind,
                            std::span<const FamilyOf<Config>> families) {
  const ConfigReader reader = open_config(folder);
  const FamilyOf<Config>* family = find(families, reader.text("model_type"));
  if (family == nullptr) reader.refuse("model_type", concat(kind, " (", model_types(families), ")"));
  std::unique_ptr<Model> model;
  Config config = family->read(reader);
  read_generation(folder / kGeneration, config);
  try {
    model = std::make_unique<Model>(config);
  } catch (const UsageError& error) {
    throw DataError(concat((folder / kConfig).string(), ": ", error.what()));
  }
  load_parameters(TensorFiles(folder), family->names(config),
                  [&](const nn::ParameterVisitor& visitor) { model->visit(visitor); });
  return model;
}

template <class Model, class Config>
void save(const std::filesystem::path& folder, const Model& model, std::string_view model_type,
          std::span<const FamilyOf<Config>> families) {
  const FamilyOf<Config>* family = find(families, model_type);
  if (family == nullptr) {
    throw UsageError(
        concat("model_type: expected one of ", model_types(families), ", found \"", model_type, "\""));
  }
  const std::string config = family->write(model.config());
  make_writable_folder(folder);
  write_file_atomically(folder / kConfig, config);
  io::write_safetensors(folder / kWeights,
                        stored_tensors(family->names(model.config()),
                                       [&](const nn::ParameterVisitor& visitor) { model.visit(visitor); }));
}

}  // namespace

FolderKind folder_kind(const std::filesystem::path& folder) {
  const ConfigReader reader = open_config(folder);
  const std::string model_type = reader.text("model_type");
  if (find(language_families(), model_type) != nullptr) return FolderKind::language;
  if (find(encoder_families(), model_type) != nullptr) return FolderKind::encoder;
  if (find(image_families(), model_type) != nullptr) return FolderKind::image;
  if (model_type == "marian" || model_type == "qkv") return FolderKind::translation;
  reader.refuse("model_type",
                concat("one of ", model_types(language_families()), ", ", model_types(encoder_families()),
                       ", ", model_types(image_families()), ", marian, qkv"));
}

std::unique_ptr<LanguageModel> load_language_model(const std::filesystem::path& folder) {
  return load<LanguageModel>(folder, "a language model", language_families());
}

std::unique_ptr<TextEncoder> load_text_encoder(const std::filesystem::path& folder) {
  return load<TextEncoder>(folder, "an encoder of texts", encoder_families());
}

std::unique_ptr<ImageEncoder> load_image_encoder(const std::filesystem::path& folder) {
  return load<ImageEncoder>(folder, "an encoder of images", image_families());
}

void save_language_model(const std::filesystem::path& folder, const LanguageModel& model,
                         std::string_view model_type) {
  save(folder, model, model_type, language_families());
}

void save_text_encoder(const std::filesystem::path& folder, const TextEncoder& model,
                       std::string_view model_type) {
  save(folder, model, model_type, encoder_families());
}

void save_image_encoder(const std::filesystem::path& folder, const ImageEncoder& model,
                        std::string_view model_type) {
  save(folder, model, model_type, image_families());
}

}  // namespace qkv::models

#include "qkv/models/pretrained.h"

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/family.h"

namespace qkv::models {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr std::string_view kOwn = "qkv-";  // before the family of a folder with int8 weights

// A folder's config.json, and what it says before its family reads it.
struct Opened {
  ConfigReader reader;
  StoredForm weights;
  std::string family;
  bool own;  // tensors are named and laid out as parameters are here
};

Opened open_config(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw IoError(concat("model folder ", folder.string(), ": ",
                         std::filesystem::exists(folder) ? "it is not a folder" : "there is no such folder"));
  }
  const std::filesystem::path path = folder / kConfig;
  const std::string text = read_file(path);
  const ConfigReader reader(text, path.string());
  const std::string model_type = reader.text("model_type");
  const bool own = model_type.starts_with(kOwn);
  return {reader, stored_form(text, path.string()), own ? model_type.substr(kOwn.size()) : model_type, own};
}

template <class Model>
auto parameters_of(const Model& model) {
  return [&model](const nn::ParameterVisitor& visitor) { model.visit(visitor); };
}

// A family's config.json for weights in this form.
std::string config_of(const std::string& text, WeightForm form) {
  auto fields = nlohmann::ordered_json::parse(text);
  fields["dtype"] = config_dtype(form);
  if (form == WeightForm::int8) fields["model_type"] = concat(kOwn, fields["model_type"].get<std::string>());
  return fields.dump(2) + "\n";
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
                            std::span<const FamilyOf<Config>> families, const LoadOptions& options) {
  const Opened opened = open_config(folder);
  const ConfigReader& reader = opened.reader;
  const FamilyOf<Config>* family = find(families, opened.family);
  if (family == nullptr) reader.refuse("model_type", concat(kind, " (", model_types(families), ")"));
  if (opened.own != (opened.weights.form == WeightForm::int8)) {
    reader.refuse("dtype", concat(opened.own ? "" : "anything but ", "\"int8\", as the model_type is ",
                                  reader.text("model_type")));
  }
  std::unique_ptr<Model> model;
  Config config = family->read(reader);
  read_generation(folder / kGeneration, config);
  try {
    model = std::make_unique<Model>(config);
  } catch (const UsageError& error) {
    throw DataError(concat((folder / kConfig).string(), ": ", error.what()));
  }
  const auto visit = parameters_of(*model);
  const TensorFiles files(folder, MapFor::reading);
  if (opened.own) {
    visit([&](const std::string& name, const nn::Parameter& parameter) {
      load_parameter(files.file_of(name, parameter.shape), {.name = name, .shape = parameter.shape},
                     opened.weights, parameter, options);
    });
  } else {
    load_parameters(files, family->names(config), opened.weights, visit, options);
  }
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
  const auto visit = parameters_of(model);
  const WeightForm form = form_of(visit);
  const std::string config = config_of(family->write(model.config()), form);
  std::vector<io::NamedTensor> tensors;
  if (form == WeightForm::int8) {
    visit([&](const std::string& name, const nn::Parameter& parameter) {
      append_parameter(tensors, name, parameter);
    });
  } else {
    tensors = stored_tensors(family->names(model.config()), visit);
  }
  make_writable_folder(folder);
  write_file_atomically(folder / kConfig, config);
  io::write_safetensors(folder / kWeights, tensors);
}

}  // namespace

FolderKind folder_kind(const std::filesystem::path& folder) {
  const Opened opened = open_config(folder);
  const std::string& family = opened.family;
  if (find(language_families(), family) != nullptr) return FolderKind::language;
  if (find(encoder_families(), family) != nullptr) return FolderKind::encoder;
  if (find(image_families(), family) != nullptr) return FolderKind::image;
  for (const TranslationFamily& one : translation_families()) {
    if (one.model_type == family) return FolderKind::translation;
  }
  if (family == "marian" || family == "qkv") return FolderKind::translation;
  opened.reader.refuse(
      "model_type", concat("one of ", model_types(language_families()), ", ", model_types(encoder_families()),
                           ", ", model_types(image_families()), ", t5, marian, qkv"));
}

WeightForm form_of(const LanguageModel& model) { return form_of(parameters_of(model)); }
WeightForm form_of(const TextEncoder& model) { return form_of(parameters_of(model)); }
WeightForm form_of(const ImageEncoder& model) { return form_of(parameters_of(model)); }

std::string family_of(const std::filesystem::path& folder) { return open_config(folder).family; }

std::unique_ptr<LanguageModel> load_language_model(const std::filesystem::path& folder,
                                                   const LoadOptions& options) {
  return load<LanguageModel>(folder, "a language model", language_families(), options);
}

std::unique_ptr<TextEncoder> load_text_encoder(const std::filesystem::path& folder,
                                               const LoadOptions& options) {
  return load<TextEncoder>(folder, "an encoder of texts", encoder_families(), options);
}

std::unique_ptr<ImageEncoder> load_image_encoder(const std::filesystem::path& folder,
                                                 const LoadOptions& options) {
  return load<ImageEncoder>(folder, "an encoder of images", image_families(), options);
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

#include "qkv/models/hub/opened_config.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/read_config.h"

namespace qkv::models {
namespace {

// The model_type of qkv's own format.
constexpr std::string_view kOwn = "qkv";

// Throws for a folder without config.json, naming its contents.
void refuse_without_config(const std::filesystem::path& folder) {
  const auto refuse = [&](const std::string& found) {
    throw IoError(concat("model folder ", folder.string(), ": expected config.json, found ", found));
  };
  if (std::filesystem::is_directory(folder / "snapshots"))
    refuse(concat("the hub's cache of a model, whose folders are ", (folder / "snapshots").string(), "/*"));
  if (const std::string found = unreadable_weights(folder); !found.empty()) refuse(found);
}

Opened open_gguf(const std::filesystem::path& path) {
  const GgufModel model(path);
  const ConfigReader reader(model.config_json(), path.string());
  return {.reader = reader,
          .weights = {path.string()},
          .family = reader.string("model_type"),
          .stored = {Layouts::gguf}};
}

Opened open_checked_config(const std::filesystem::path& folder) {
  if (is_gguf(folder)) return open_gguf(folder);
  if (!std::filesystem::is_directory(folder)) {
    throw IoError(concat("model folder ", folder.string(), ": ",
                         std::filesystem::exists(folder) ? "it is not a folder" : "there is no such folder"));
  }
  const std::filesystem::path path = folder / kConfig;
  if (!std::filesystem::exists(path)) refuse_without_config(folder);
  const Wrapper* wrapper =
      find_wrapper(ConfigReader(read_file(path), path.string()).string("model_type", ""));
  const std::string text = read_model_file(folder, kConfig).value();
  const ConfigReader reader(text, concat(path.string(), wrapper == nullptr ? "" : ": text_config"));
  constexpr const char* kQuantization = "quantization_config";
  if (reader.has(kQuantization) && reader.object(kQuantization).string("quant_method", "") != "mxfp4") {
    reader.reject(
        kQuantization,
        "none, as weights that another program quantized are not read (qkv quantize makes bf16 and int8 "
        "of a folder in full precision)");
  }
  const std::string model_type = reader.string("model_type");
  const bool own = model_type.starts_with(kOwnLayout);
  return {reader,
          stored_dtype(text, path.string()),
          own ? model_type.substr(kOwnLayout.size()) : model_type,
          {own ? Layouts::own : Layouts::family, wrapper}};
}

// Reads the end tokens from generation_config.json, if it has them.
void read_generation(const std::filesystem::path& path, LanguageModelConfig& config) {
  if (!std::filesystem::exists(path)) return;
  const ConfigReader reader(read_file(path), path.string());
  if (reader.has("bos_token_id")) config.bos_ids = reader.ids("bos_token_id");
  if (reader.has("eos_token_id")) config.eos_ids = reader.ids("eos_token_id");
}

void read_generation(const std::filesystem::path& path, TransformerConfig& config) {
  if (!std::filesystem::exists(path)) return;
  const ConfigReader reader(read_file(path), path.string());
  config.decoder_start_id = reader.integer("decoder_start_token_id", config.decoder_start_id);
}

template <class Config>
void read_generation(const std::filesystem::path& /*path*/, Config& /*config*/) {}

// Ids outside the vocabulary begin and end nothing: configurations of small models keep the defaults of large
// ones.
void drop_foreign_ids(LanguageModelConfig& config) {
  for (auto* ids : {&config.bos_ids, &config.eos_ids})
    std::erase_if(*ids, [&](int32_t id) { return id < 0 || id >= config.vocabulary; });
}

template <class Config>
void drop_foreign_ids(Config& /*config*/) {}

// An error of a setting, with the name that the file has for it: families name settings differently.
std::string with_field_name(const std::string& message, const ConfigReader& reader) {
  static constexpr std::pair<std::string_view, std::string_view> kFields[] = {
      {"d_model", "hidden_size n_embd dim"},
      {"layers", "num_hidden_layers n_layer n_layers num_layers"},
      {"heads", "num_attention_heads n_head n_heads num_heads"},
      {"key_heads", "num_key_value_heads num_kv_heads"},
      {"d_ff", "intermediate_size n_inner hidden_dim"},
      {"max_positions", "max_position_embeddings n_positions"},
      {"epsilon", "layer_norm_eps rms_norm_eps layer_norm_epsilon norm_eps"},
      {"rotary_base", "rope_theta"},
      {"end_id", "eos_token_id"},
      {"height", "image_size"},
      {"patch", "patch_size"},
      {"pooler_width", "projection_dim projection_size"},
      {"projection", "projection_dim"}};
  const std::string setting = message.substr(0, message.find(':'));
  for (const auto& [name, keys] : kFields) {
    if (setting != name) continue;
    for (const std::string& key : words_of(keys))
      if (reader.has(key)) return concat(key, " (", name, ")", message.substr(name.size()));
  }
  return message;
}

}  // namespace

std::string model_type_of(std::string_view family, DType dtype) {
  return concat(is_own(dtype) && family != kOwn ? kOwnLayout : "", family);
}

Opened open_config(const std::filesystem::path& folder) {
  return with_io_errors([&] { return open_checked_config(folder); });
}

Opened part_of(Opened opened, DualPart part) {
  const DualFamily* dual = find_dual(opened.family);
  if (dual == nullptr) return opened;
  const bool of_text = part == DualPart::text;
  opened.reader =
      ConfigReader(config_of_part(opened.reader, *dual, part),
                   concat(opened.weights.config, ": ", of_text ? "text_config" : "vision_config"));
  opened.family = of_text ? dual->text.model_type : dual->image.model_type;
  opened.stored.dual = dual;
  opened.stored.part = part;
  return opened;
}

template <class Family>
Configured<Family> read_config(const std::filesystem::path& folder, const std::filesystem::path& described,
                               const char* kind, std::span<const Family> families) {
  Opened opened = open_config(described);
  if constexpr (std::is_same_v<Family, EncoderFamily>) opened = part_of(std::move(opened), DualPart::text);
  if constexpr (std::is_same_v<Family, ImageFamily>) opened = part_of(std::move(opened), DualPart::image);
  const ConfigReader& reader = opened.reader;
  const Family* family = find_family(families, opened.family);
  if (family == nullptr) {
    reader.reject("model_type", concat(kind, " (", model_types(families), ")",
                                       nearest_family(reader, opened.family, folder)));
  }
  if (reader.string("model_type") !=
      model_type_of(opened.family, opened.weights.dtype.value_or(DType::f32))) {
    reader.reject("dtype", concat(opened.stored.layouts == Layouts::own ? "" : "anything but ",
                                  "\"int8\" or blocks, as the model_type is ", reader.string("model_type")));
  }
  if (reader.has("auto_map")) {
    log_warning(concat((folder / kConfig).string(),
                       ": \"auto_map\" names code of the folder's own, which is ",
                       "not run; opening the folder as transformers' own ", family->model_type));
  }
  try {
    auto config = family->parse(reader);
    read_generation(folder / kGeneration, config);
    drop_foreign_ids(config);
    config.validate();
    return {std::move(opened), family, std::move(config)};
  } catch (const UsageError& error) {
    const char* part = opened.stored.dual == nullptr          ? ""
                       : opened.stored.part == DualPart::text ? ": text_config"
                                                              : ": vision_config";
    throw DataError(
        concat(model_file_name(folder, kConfig), part, ": ", with_field_name(error.what(), reader)));
  }
}

template Configured<LanguageFamily> read_config(const std::filesystem::path&, const std::filesystem::path&,
                                                const char*, std::span<const LanguageFamily>);
template Configured<EncoderFamily> read_config(const std::filesystem::path&, const std::filesystem::path&,
                                               const char*, std::span<const EncoderFamily>);
template Configured<ImageFamily> read_config(const std::filesystem::path&, const std::filesystem::path&,
                                             const char*, std::span<const ImageFamily>);
template Configured<TranslationFamily> read_config(const std::filesystem::path&, const std::filesystem::path&,
                                                   const char*, std::span<const TranslationFamily>);

FolderKind folder_kind(const std::filesystem::path& folder) {
  const Opened opened = open_config(folder);
  const std::vector<std::string> classes = opened.reader.strings("architectures");
  std::optional<FolderKind> kind;
  std::string known;
  const auto look = [&](FolderKind of, auto families) {
    for (const auto& family : families) {
      const bool others = family.own_class.empty();
      if (others) known += concat(known.empty() ? "" : ", ", family.model_type);
      if (family.model_type != opened.family) continue;
      const bool own = !classes.empty() && classes.front() == family.own_class;
      if (others ? !kind : own) kind = of;
    }
  };
  look(FolderKind::language, language_families());
  look(FolderKind::encoder, encoder_families());
  look(FolderKind::image, image_families());
  look(FolderKind::translation, translation_families());
  const TranslationFamily* encoder_decoder = find_family(translation_families(), opened.family);
  if (encoder_decoder != nullptr && encoder_decoder->base.config.reads_audio()) kind = FolderKind::speech;
  for (const DualFamily& family : dual_families()) {
    known += concat(", ", family.model_type);
    if (family.model_type == opened.family) kind = FolderKind::image_text;
  }
  // A language model whose hidden states sentence-transformers pools, or whose attention is not causal.
  const auto both = opened.reader.find("use_bidirectional_attention");
  if (kind == FolderKind::language &&
      (read_model_file(folder, kModules) || (both && both->is_boolean() && both->boolean())))
    kind = FolderKind::encoder;
  if (!kind) {
    opened.reader.reject("model_type",
                         concat("one of ", known, nearest_family(opened.reader, opened.family, folder)));
  }
  return *kind;
}

std::string family_of(const std::filesystem::path& folder) { return open_config(folder).family; }

LanguageModelConfig read_language_model_config(const std::filesystem::path& folder) {
  return read_config(folder, folder, kLanguageModel, language_families()).config;
}

TextEncoderConfig read_text_encoder_config(const std::filesystem::path& folder) {
  return read_config(folder, folder, kTextEncoder, encoder_families()).config;
}

ImageEncoderConfig read_image_encoder_config(const std::filesystem::path& folder) {
  return read_config(folder, folder, kImageEncoder, image_families()).config;
}

TransformerConfig read_transformer_config(const std::filesystem::path& folder) {
  return read_config(folder, folder, kTransformer, translation_families()).config;
}

}  // namespace qkv::models

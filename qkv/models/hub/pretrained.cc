#include "qkv/models/hub/pretrained.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/io/checksums.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/adapter_files.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/models/hub/wrappers.h"

namespace qkv::models {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kModules = "modules.json";
constexpr const char* kWeights = "model.safetensors";
// The model_type of qkv's own format; followed by a hyphen, the prefix of a family's model_type for int8
// weights.
constexpr std::string_view kOwn = "qkv";
constexpr std::string_view kOwnLayout = "qkv-";
// Kinds of models, for messages.
constexpr const char *kLanguageModel = "a language model", *kTextEncoder = "an encoder of texts",
                     *kImageEncoder = "an encoder of images", *kTransformer = "an encoder-decoder";

// The tensors' names and layouts: the family's; its names and the parameters' layouts; the parameters' own.
enum class Layouts : uint8_t { family, gguf, own };

// How the tensors of files are named and laid out. `wrapper`: the model that the family's is within, or null.
struct Stored {
  Layouts layouts = Layouts::family;
  const Wrapper* wrapper = nullptr;
};

// A folder's config.json, opened, with the fields read before its family reads the rest.
struct Opened {
  ConfigReader reader;
  StoredDType weights;
  std::string family;
  Stored stored = {};
};

// Whether weights of a dtype have no place in the family's own folders.
bool is_own(DType dtype) { return dtype == DType::i8 || in_blocks(dtype); }

std::string model_type_of(std::string_view family, DType dtype) {
  return concat(is_own(dtype) && family != kOwn ? kOwnLayout : "", family);
}

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

Opened open_config(const std::filesystem::path& folder) {
  return with_io_errors([&] { return open_checked_config(folder); });
}

template <class Model>
auto parameters_of(const Model& model) {
  return [&model](const nn::ParameterVisitor& visitor) { model.visit(visitor); };
}

template <class Family>
std::string model_types(std::span<const Family> families) {
  std::string list;
  for (const Family& family : families) list += concat(list.empty() ? "" : ", ", family.model_type);
  return list;
}

const nn::StackOptions& stack_of(const LanguageModelConfig& config) { return config.decoder; }
const nn::StackOptions& stack_of(const TextEncoderConfig& config) { return config.encoder; }

// The family's map, with the names that modules have in transformers.
template <class Config>
WeightMap family_map(const FamilyOf<Config>& family, const Config& config, const Wrapper* wrapper) {
  WeightMap map = family.weight_map(config);
  if constexpr (requires { stack_of(config); }) {
    if (wrapper != nullptr) map = wrapped_map(std::move(map), *wrapper, stack_of(config));
  }
  return map;
}

template <class Config>
WeightMap weight_map_of(const FamilyOf<Config>& family, const Config& config, const Stored& stored) {
  if (stored.layouts == Layouts::own) return {.others_same = true};
  WeightMap map = family_map(family, config, stored.wrapper);
  for (WeightRule& rule : map.rules) {
    if (stored.layouts != Layouts::gguf) break;
    rule.layout = Layout::same;
    rule.minus_one = false;
  }
  return map;
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

// The folder whose config.json describes the model: the adapter's, if it has one.
std::filesystem::path config_folder(const std::filesystem::path& folder, const LoadOptions& options) {
  if (options.adapter.empty()) return folder;
  if (!is_adapter(options.adapter)) {
    throw IoError(concat("adapter ", options.adapter.string(), ": expected ", kAdapterConfig, " and ",
                         kAdapterWeights, ", found ", instead_of_adapter(options.adapter)));
  }
  return std::filesystem::exists(options.adapter / kConfig) ? options.adapter : folder;
}

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
      {"rotary_base", "rope_theta"}};
  const std::string setting = message.substr(0, message.find(':'));
  for (const auto& [name, keys] : kFields) {
    if (setting != name) continue;
    for (const std::string& key : words_of(keys))
      if (reader.has(key)) return concat(key, " (", name, ")", message.substr(name.size()));
  }
  return message;
}

// A folder's config.json, read by its family.
template <class Family, class Config>
struct Configured {
  Opened opened;
  const Family* family;
  Config config;
};

// `described`: the folder with config.json.
template <class Family>
auto read_config(const std::filesystem::path& folder, const std::filesystem::path& described,
                 const char* kind, std::span<const Family> families) {
  Opened opened = open_config(described);
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
  using Config = decltype(family->parse(reader));
  try {
    Config config = family->parse(reader);
    read_generation(folder / kGeneration, config);
    drop_foreign_ids(config);
    config.validate();
    return Configured<Family, Config>{std::move(opened), family, std::move(config)};
  } catch (const UsageError& error) {
    throw DataError(concat(model_file_name(folder, kConfig), ": ", with_field_name(error.what(), reader)));
  }
}

// A folder that stores an output projection other than the table to which config.json ties it has two tables,
// as in transformers 5.
void untie_if_stored_apart(const TensorFiles& files, const WeightMap& map, LanguageModelConfig& config) {
  if (!config.tied) return;
  const auto [table, head] = stored_apart(files, map, "embed_tokens.weight");
  if (head.empty()) return;
  config.tied = false;
  log_info(
      concat(head, " differs from ", table, ": the two are not tied, whatever \"tie_word_embeddings\" says"));
}

template <class Config>
void untie_if_stored_apart(const TensorFiles& /*files*/, const WeightMap& /*map*/, Config& /*config*/) {}

// sentence-transformers writes the weights without a head beside the "architectures" of the model that it
// began with (all-mpnet-base-v2: "MPNetForMaskedLM").
void drop_absent_head(const std::filesystem::path& folder, const TensorFiles& files, const WeightMap& map,
                      const EncoderFamily& family, TextEncoderConfig& config) {
  if (!config.masked_language || !read_model_file(folder, kModules)) return;
  const auto names = possible_names(map, mapped_name(map, "masked_language.dense.weight"));
  if (std::ranges::any_of(names, [&](const std::string& name) { return files.contains(name); })) return;
  config.masked_language = config.next_sentence = false;
  config.pooler = family.classes.front().pooler;
}

template <class Family, class Config>
void drop_absent_head(const std::filesystem::path& /*folder*/, const TensorFiles& /*files*/,
                      const WeightMap& /*map*/, const Family& /*family*/, Config& /*config*/) {}

// Folders of transformers name the class that they were saved as, and keep the weights of other heads.
void add_stored_heads(const TensorFiles& files, const EncoderFamily& family, const Stored& stored,
                      const TextEncoderConfig& wanted, TextEncoderConfig& config) {
  const WeightMap wanted_map = weight_map_of(family, wanted, stored);
  const auto add = [&](bool TextEncoderConfig::*head, const char* parameter) {
    if (config.*head || !(wanted.*head)) return;
    TextEncoderConfig with = config;
    with.*head = true;
    const WeightMap map = weight_map_of(family, with, stored);
    const MappedName name = mapped_name(map, parameter);
    if (name.name != mapped_name(wanted_map, parameter).name) return;  // another part, of the same name here
    const auto found = [&](const std::string& one) { return files.contains(one); };
    if (std::ranges::any_of(possible_names(map, name), found)) config = with;
  };
  add(&TextEncoderConfig::pooler, "pooler.weight");
  add(&TextEncoderConfig::masked_language, "masked_language.dense.weight");
  if (config.pooler) add(&TextEncoderConfig::next_sentence, "next_sentence.weight");
}

template <class Family, class Config>
void add_stored_heads(const TensorFiles& /*files*/, const Family& /*family*/, const Stored& /*stored*/,
                      const TextEncoderConfig& /*wanted*/, Config& /*config*/) {}

template <class Model, class Family>
std::unique_ptr<Model> load(const std::filesystem::path& folder, const char* kind,
                            std::span<const Family> families, const LoadOptions& options) {
  const std::filesystem::path described = config_folder(folder, options);
  auto [opened, family, config] = read_config(folder, described, kind, families);
  if (described != folder) {  // the weights' format is that of the base
    const Opened base = open_config(folder);
    opened.weights = base.weights;
    opened.stored = base.stored;
  }
  if (const Wrapper* wrapper = opened.stored.wrapper)
    log_info(concat((folder / kConfig).string(), ": of the model of images \"", wrapper->model_type,
                    "\" only the language model is opened (", family->model_type, "): images are not read"));
  const TensorFiles files = with_io_errors(
      [&] { return TensorFiles(folder, options.trainable ? MapFor::writing : MapFor::reading); });
  const WeightMap of_config = weight_map_of(*family, config, opened.stored);
  untie_if_stored_apart(files, of_config, config);
  drop_absent_head(folder, files, of_config, *family, config);
  if (options.heads != nullptr) add_stored_heads(files, *family, opened.stored, *options.heads, config);
  std::unique_ptr<Model> model;
  try {
    model = std::make_unique<Model>(config);
  } catch (const UsageError& error) {
    throw DataError(concat(model_file_name(folder, kConfig), ": ", error.what()));
  }
  WeightMap map = weight_map_of(*family, model->config(), opened.stored);
  if constexpr (requires { stack_of(model->config()); }) {
    if (const Wrapper* wrapper = opened.stored.wrapper)
      fit_experts(map, *wrapper, stack_of(model->config()), files);
  }
  const auto all = parameters_of(*model);
  std::optional<AdapterFiles> adapter;
  if (!options.adapter.empty())
    adapter.emplace(options.adapter, family_map(*family, model->config(), opened.stored.wrapper), folder);
  load_parameters(
      files, map, opened.weights,
      [&](const nn::ParameterVisitor& visitor) {
        all([&](const std::string& name, const nn::Parameter& parameter) {
          if (!adapter || !adapter->replaces(name)) visitor(name, parameter);
        });
      },
      options);
  if (adapter) adapter->add_to(all);
  nn::move_to(*model, options.device);
  return model;
}

template <class Model, class Config>
void save(const std::filesystem::path& folder, const Model& model, const FamilyOf<Config>& family,
          const std::filesystem::path& original) {
  const auto visit = parameters_of(model);
  const DType dtype = weight_dtype(visit);
  ConfigWriter config = family.serialize(model.config());
  config.string("dtype", config_dtype(dtype));
  config.string("model_type", model_type_of(family.model_type, dtype));
  if (!original.empty()) config.keep_others(read_model_file(original, kConfig).value());
  const std::vector<io::NamedTensor> tensors = stored_tensors(
      weight_map_of(family, model.config(), {is_own(dtype) ? Layouts::own : Layouts::family}), visit);
  make_writable_folder(folder);
  write_file_atomically(folder / kConfig, config.json());
  io::write_safetensors(folder / kWeights, tensors, io::with_checksums({{"format", "pt"}}, tensors));
}

template <class Family>
const Family& family_named(std::span<const Family> families, std::string_view model_type) {
  if (const Family* family = find_family(families, model_type)) return *family;
  throw UsageError(
      concat("model_type: expected one of ", model_types(families), ", found \"", model_type, "\""));
}

template <class Model, class Config>
void save_adapter_of(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                     const VisitHead& visit_head, const Model& model, const FamilyOf<Config>& family,
                     const AdapterBase& base) {
  bool has_head = false;
  visit_head([&](const std::string&, const nn::Parameter&) { has_head = true; });
  if (has_head) {
    const std::string config = family.serialize(model.config()).json();
    if (!base.only_check) {
      make_writable_folder(folder);
      write_file_atomically(folder / kConfig, config);
    }
  }
  write_adapter(folder, adapter, visit_head,
                family_map(family, model.config(), open_config(base.folder).stored.wrapper), base);
}

}  // namespace

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

void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const LanguageModel& model, std::string_view model_type,
                  const AdapterBase& base) {
  save_adapter_of(folder, adapter, visit_head, model, family_named(language_families(), model_type), base);
}

void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const TextEncoder& model, std::string_view model_type,
                  const AdapterBase& base) {
  save_adapter_of(folder, adapter, visit_head, model, family_named(encoder_families(), model_type), base);
}

void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const ImageEncoder& model, std::string_view model_type,
                  const AdapterBase& base) {
  save_adapter_of(folder, adapter, visit_head, model, family_named(image_families(), model_type), base);
}

void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const Transformer& model, std::string_view model_type,
                  const AdapterBase& base) {
  save_adapter_of(folder, adapter, visit_head, model, family_named(translation_families(), model_type), base);
}

DType weight_dtype(const LanguageModel& model) { return weight_dtype(parameters_of(model)); }
DType weight_dtype(const TextEncoder& model) { return weight_dtype(parameters_of(model)); }
DType weight_dtype(const ImageEncoder& model) { return weight_dtype(parameters_of(model)); }
DType weight_dtype(const Transformer& model) { return weight_dtype(parameters_of(model)); }

text::Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return is_gguf(path) ? GgufModel(path).tokenizer() : text::Tokenizer::load(path);
}

std::string family_of(const std::filesystem::path& folder) { return open_config(folder).family; }

std::unique_ptr<LanguageModel> load_language_model(const std::filesystem::path& folder,
                                                   const LoadOptions& options) {
  return load<LanguageModel>(folder, kLanguageModel, language_families(), options);
}

std::unique_ptr<TextEncoder> load_text_encoder(const std::filesystem::path& folder,
                                               const LoadOptions& options) {
  return load<TextEncoder>(folder, kTextEncoder, encoder_families(), options);
}

std::unique_ptr<ImageEncoder> load_image_encoder(const std::filesystem::path& folder,
                                                 const LoadOptions& options) {
  return load<ImageEncoder>(folder, kImageEncoder, image_families(), options);
}

std::unique_ptr<Transformer> load_transformer(const std::filesystem::path& folder,
                                              const LoadOptions& options) {
  return load<Transformer>(folder, kTransformer, translation_families(), options);
}

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

void require_expressible(const LanguageModelConfig& config, std::string_view model_type) {
  family_named(language_families(), model_type).serialize(config);
}

void require_expressible(const TextEncoderConfig& config, std::string_view model_type) {
  family_named(encoder_families(), model_type).serialize(config);
}

void require_expressible(const ImageEncoderConfig& config, std::string_view model_type) {
  family_named(image_families(), model_type).serialize(config);
}

void save_language_model(const std::filesystem::path& folder, const LanguageModel& model,
                         std::string_view model_type, const std::filesystem::path& original) {
  save(folder, model, family_named(language_families(), model_type), original);
}

void save_text_encoder(const std::filesystem::path& folder, const TextEncoder& model,
                       std::string_view model_type, const std::filesystem::path& original) {
  save(folder, model, family_named(encoder_families(), model_type), original);
}

void save_image_encoder(const std::filesystem::path& folder, const ImageEncoder& model,
                        std::string_view model_type, const std::filesystem::path& original) {
  save(folder, model, family_named(image_families(), model_type), original);
}

void save_transformer(const std::filesystem::path& folder, const Transformer& model,
                      const GenerationDefaults& defaults, const std::filesystem::path& original) {
  const auto families = translation_families();
  const auto fits = [&](const TranslationFamily& one) { return one.fits(model.config()); };
  const TranslationFamily* family = original.empty() ? nullptr : find_family(families, family_of(original));
  if (family == nullptr || !fits(*family)) family = &*std::ranges::find_if(families, fits);
  make_writable_folder(folder);
  if (original.empty())
    write_file_atomically(folder / kGeneration, generation_json(model.config(), defaults));
  save(folder, model, *family, original);
}

}  // namespace qkv::models

#include "qkv/models/hub/pretrained.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/io/checksums.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/adapters/adapter_files.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/opened_config.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/models/vision_tower.h"

namespace qkv::models {
namespace {

template <class Model>
auto parameters_of(const Model& model) {
  return [&model](const nn::ParameterVisitor& visitor) { model.visit(visitor); };
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
  if (stored.layouts == Layouts::own) {
    if (stored.dual == nullptr && stored.wrapper == nullptr) return {.others_same = true};
    return {.others_same = true,
            .own_prefix = own_prefix(stored.part),
            .other_parts = {"text.", "image.", "image_newline", "logit_", "model.", "multi_modal_projector.",
                            "vision_tower."}};
  }
  WeightMap map = family_map(family, config, stored.wrapper);
  if (stored.dual != nullptr) map.other_parts = {"text_", "vision_model.", "visual_projection.", "logit_"};
  for (WeightRule& rule : map.rules) {
    if (stored.layouts != Layouts::gguf) break;
    rule.layout = Layout::same;
    rule.minus_one = false;
  }
  return map;
}

// The folder whose config.json describes the model: the adapter's, if it has one.
std::filesystem::path config_folder(const std::filesystem::path& folder, const LoadOptions& options) {
  if (options.adapter.empty()) return folder;
  if (!is_adapter(options.adapter)) {
    throw IoError(concat("adapter ", options.adapter.string(), ": expected ", kAdapterConfig, " and ",
                         kAdapterWeights, ", found ", instead_of_adapter(options.adapter)));
  }
  return std::filesystem::exists(options.adapter / kConfig) ? options.adapter : folder;
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

template <class Config>
void set_activations(Config& config, const LoadOptions& options) {
  if (options.activations != DType::f32 && options.activations != DType::bf16)
    throw UsageError(concat("activations: expected f32 or bf16, found ", name_of(options.activations)));
  if (options.activations != DType::f32 && options.device == Device::cpu)
    throw UsageError(
        concat("activations: expected f32 on the device cpu, found ", name_of(options.activations)));
  if constexpr (requires { config.encoder; }) {
    config.encoder.activations = options.activations;
  } else if constexpr (requires { config.decoder; }) {
    config.decoder.activations = options.activations;
  } else {
    config.activations = options.activations;
  }
}

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
  const Wrapper* around = opened.stored.wrapper;
  if (around != nullptr && !(std::is_same_v<Model, LanguageModel> && reads_images(around->model_type)))
    log_info(concat((folder / kConfig).string(), ": of the model of images \"", around->model_type,
                    "\" only the language model is opened (", family->model_type, "): images are not read"));
  const TensorFiles files = with_io_errors(
      [&] { return TensorFiles(folder, options.trainable ? MapFor::writing : MapFor::reading); });
  const WeightMap of_config = weight_map_of(*family, config, opened.stored);
  untie_if_stored_apart(files, of_config, config);
  drop_absent_head(folder, files, of_config, *family, config);
  if (options.heads != nullptr) add_stored_heads(files, *family, opened.stored, *options.heads, config);
  set_activations(config, options);
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
  load_parameters(files, map, opened.weights, all, options,
                  [&](const std::string& name) { return adapter && adapter->replaces(name); });
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
  io::write_safetensors(folder / kSavedWeights, tensors, io::with_checksums({{"format", "pt"}}, tensors));
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
DType weight_dtype(const DualEncoder& model) { return weight_dtype(parameters_of(model)); }
DType weight_dtype(const Transformer& model) { return weight_dtype(parameters_of(model)); }

text::Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return is_gguf(path) ? GgufModel(path).tokenizer() : text::Tokenizer::load(path);
}

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
  if (family == nullptr || !fits(*family)) {
    const auto first = std::ranges::find_if(families, fits);
    if (first == families.end())
      throw UsageError("save: expected a model of audio that whisper's config.json expresses, found another");
    family = &*first;
  }
  make_writable_folder(folder);
  if (original.empty())
    write_file_atomically(folder / kGeneration, generation_json(model.config(), defaults));
  save(folder, model, *family, original);
}

}  // namespace qkv::models

#include "qkv/models/hub/family.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <set>

#include "qkv/base/error.h"
#include "qkv/models/hub/label_fields.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

constexpr const char* kArchitectures = "architectures";

// The part of a configuration that describes its layers; null: it has none.
nn::StackOptions* stack_of(LanguageModelConfig& config) { return &config.decoder; }
nn::StackOptions* stack_of(TextEncoderConfig& config) { return &config.encoder; }
nn::StackOptions* stack_of(ImageEncoderConfig& config) { return &config.encoder; }
nn::StackOptions* stack_of(TransformerConfig& /*config*/) { return nullptr; }

template <class Config>
Config composed(Described<Config> model) {
  if (nn::StackOptions* stack = stack_of(model.config)) {
    if (stack->layers.empty()) stack->layers = nn::alike(model.layers, model.layer);
  }
  if constexpr (requires { model.config.embedding; }) model.config.embedding.d_model = model.layer.d_model;
  return std::move(model.config);
}

template <class Config>
Described<Config> taken_apart(const Config& config) {
  Described<Config> model{.config = config};
  if (const nn::StackOptions* stack = stack_of(model.config)) {
    model.layers = stack->size();
    model.layer = resolved(stack->first());
  }
  return model;
}

// The heads of a configuration, as a class without a name.
template <class Config>
ModelClass heads_of(const Config& /*config*/) {
  return {};
}
ModelClass heads_of(const TextEncoderConfig& config) {
  return {.pooler = config.pooler,
          .masked_language = config.masked_language,
          .next_sentence = config.next_sentence,
          .labelled = config.labelled};
}
ModelClass heads_of(const ImageEncoderConfig& config) {
  return {.pooler = config.pooler,
          .projection = config.projection > 0,
          .distillation_classifier = config.distillation_classifier,
          .labelled = config.labels.empty() ? ClassificationTarget::nothing : ClassificationTarget::texts};
}

template <class Config>
void set_heads(const ModelClass& /*of*/, Config& /*config*/) {}
void set_heads(const ModelClass& of, TextEncoderConfig& config) {
  config.pooler = of.pooler;
  config.masked_language = of.masked_language;
  config.next_sentence = of.next_sentence;
  config.labelled = of.labelled;
}
void set_heads(const ModelClass& of, ImageEncoderConfig& config) {
  config.pooler = of.pooler;
  config.projection = of.projection ? 1 : 0;  // the table has its width
  config.distillation_classifier = of.distillation_classifier;
}

// Labels are read and written for a class that has a classifier.
template <class Config>
void visit_labels(const Fields& fields, const ModelClass& of, Config& config) {
  if constexpr (requires { config.labels; }) {
    if (has_labels(of.labelled)) label_fields(fields, config.labels, config.problem);
  }
}

std::string joined(const auto& names, const char* between) {
  std::string list;
  for (const std::string& name : names) list += concat(list.empty() ? "" : between, name);
  return list;
}

std::string names_of(const std::vector<ModelClass>& classes) {
  std::vector<std::string> names;
  for (const ModelClass& one : classes) names.emplace_back(one.name);
  return joined(names, " or ");
}

const ModelClass& read_class(const ConfigReader& reader, const std::vector<ModelClass>& known) {
  const std::vector<std::string> names = reader.strings(kArchitectures);
  if (names.empty()) return known.front();
  const auto found = std::ranges::find(known, names.front(), &ModelClass::name);
  if (found == known.end()) reader.reject(kArchitectures, names_of(known));
  return *found;
}

const ModelClass& class_with(const ModelClass& heads, const std::vector<ModelClass>& known) {
  const auto same = [&](ModelClass one) {
    one.name = {};
    return one == heads;
  };
  const auto found = std::ranges::find_if(known, same);
  if (found == known.end())
    throw UsageError(concat("expected the heads of ", names_of(known), ", found another combination"));
  return *found;
}

// "model.layers.#.mlp.up_proj" of "model.layers.11.mlp.up_proj.weight".
std::string module_pattern(std::string_view tensor) {
  std::string module;
  for (const char c : tensor.substr(0, tensor.rfind('.'))) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && module.ends_with('#')) continue;
    module += digit && module.ends_with('.') ? '#' : c;
  }
  return module;
}

// Empty if there are no weights, or none that can be read.
std::set<std::string> modules_in(const std::filesystem::path& folder) {
  std::set<std::string> modules;
  try {
    for (const std::string& name : TensorFiles(folder, MapFor::reading).names())
      modules.insert(module_pattern(name));
  } catch (const Error&) {
    modules.clear();
  }
  return modules;
}

LanguageModel small_model(const LanguageModelConfig& config) { return LanguageModel(config); }
TextEncoder small_model(const TextEncoderConfig& config) { return TextEncoder(config); }

// The modules that a folder has beside those of the family, and those that it lacks, as text. Models of
// images and encoder-decoders have none.
template <class Config>
std::string other_modules(const FamilyOf<Config>& family, const std::set<std::string>& folder) {
  std::string text;
  if constexpr (requires(Config config) { small_model(config); }) {
    if (folder.empty()) return text;
    constexpr int64_t kSmall = 8;
    Described<Config> model = family.base;
    model.layers = model.layer.heads = 1;
    model.layer.d_model = model.layer.d_ff = model.config.vocabulary = kSmall;
    model.config.max_positions = kSmall;
    set_heads(family.classes.front(), model.config);
    const Config config = composed(std::move(model));
    const WeightMap map = family.weight_map(config);
    std::set<std::string> own, missing;
    std::vector<std::string> unknown;
    small_model(config).visit([&](const std::string& parameter, const nn::Parameter&) {
      bool stored = false;
      for (const std::string& name : possible_names(map, mapped_name(map, parameter))) {
        const std::string module = module_pattern(name);
        own.insert(module);
        stored = stored || folder.contains(module);
      }
      if (!stored) missing.insert(module_pattern(mapped_name(map, parameter).name));
    });
    std::ranges::set_difference(folder, own, std::back_inserter(unknown));
    for (const std::string& suffix : map.computed)
      std::erase_if(unknown, [&](const std::string& name) { return name.ends_with(module_pattern(suffix)); });
    if (!unknown.empty()) text += concat("; it has no tensors ", joined(unknown, ", "));
    if (!missing.empty()) text += concat("; the folder has no tensors ", joined(missing, ", "));
  }
  return text;
}

}  // namespace

template <class Config>
Config FamilyOf<Config>::parse(const ConfigReader& reader) const {
  const ModelClass& own = read_class(reader, classes);
  const Fields fields(reader);
  Described<Config> model = base;
  set_heads(own, model.config);
  table(fields, model);
  visit_labels(fields, own, model.config);
  reader.reject_unknown_model_fields();
  return composed(std::move(model));
}

template <class Config>
ConfigWriter FamilyOf<Config>::serialize(const Config& config) const {
  try {
    const ModelClass& own = class_with(heads_of(config), classes);
    ConfigWriter writer(model_type, own.name);
    const Fields fields(writer);
    Described<Config> model = taken_apart(config);
    table(fields, model);
    visit_labels(fields, own, model.config);
    const Settings wanted = settings_of(config),
                   found = settings_of(parse(ConfigReader(writer.json(), "config.json")));
    const auto [lost, kept] = std::ranges::mismatch(wanted, found);
    if (lost == wanted.end()) return writer;
    throw UsageError(concat(lost->first, ": expected ", kept->second,
                            ", as config.json has no field for another value, found ", lost->second));
  } catch (const Error& error) {
    throw UsageError(concat(model_type, ": ", error.what()));
  }
}

template <class Config>
bool FamilyOf<Config>::fits(const Config& config) const {
  try {
    serialize(config);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

std::string nearest_family(const ConfigReader& reader, std::string_view model_type,
                           const std::filesystem::path& folder) {
  if (std::string other = other_layers(model_type); !other.empty()) return other;
  const std::set<std::string> stored = modules_in(folder);
  size_t least = std::numeric_limits<size_t>::max();
  bool known = false;
  std::string nearest;
  const auto look = [&](auto families) {
    for (const auto& family : families) {
      known = known || family.model_type == model_type;
      const ConfigReader fields = reader.afresh();
      std::vector<std::string> missing;
      auto model = family.base;
      family.table(Fields(fields, missing), model);
      fields.ignore_common();
      const std::vector<std::string> unknown = fields.unread();
      if (unknown.size() + missing.size() >= least) continue;
      least = unknown.size() + missing.size();
      nearest = concat(" (nearest: ", family.model_type);
      if (!unknown.empty()) nearest += concat("; it has no ", joined(unknown, ", "));
      if (!missing.empty()) nearest += concat("; the folder has no ", joined(missing, ", "));
      nearest += concat(other_modules(family, stored), ")");
    }
  };
  look(language_families());
  look(encoder_families());
  look(image_families());
  look(translation_families());
  return known ? "" : nearest;
}

template struct FamilyOf<LanguageModelConfig>;
template struct FamilyOf<TextEncoderConfig>;
template struct FamilyOf<ImageEncoderConfig>;
template struct FamilyOf<TransformerConfig>;

}  // namespace qkv::models

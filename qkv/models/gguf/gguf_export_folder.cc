// Writes a folder as a GGUF file.

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/base/log.h"
#include "qkv/models/gguf/gguf_architecture.h"
#include "qkv/models/gguf/gguf_parts.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

constexpr const char *kTokenizerFile = "tokenizer.json", *kGenerationFile = "generation_config.json";

// Outputs are rows in GGUF files, LLaMA's rotary pairs are side by side, and norms' weights whole.
WeightMap own_layout(WeightMap map, const nn::LayerOptions& layer, const GgufArchitecture& architecture) {
  for (WeightRule& rule : map.rules) {
    rule.layout = Layout::same;
    rule.minus_one = false;
    const bool query = rule.ours.ends_with("q_proj"), key = rule.ours.ends_with("k_proj");
    if (architecture.paired && (query || key))
      rule.paired = {query ? layer.heads : layer.key_heads, layer.d_k};
  }
  return map;
}

// A tensor of a GGUF file, and the parameters in it.
struct Source {
  std::vector<std::pair<nn::Parameter, WeightRule>> parameters;
  Shape shape;

  QuantizedTensor numbers() const {
    const auto& [first, of_first] = parameters.front();
    if (parameters.size() == 1 && !rearranges(of_first)) return first.weight().value();
    const Tensor whole = Tensor::empty(shape, DType::f32);
    for (const auto& [parameter, own] : parameters)
      put_rows(dequantize(parameter.weight().value()), own, whole);
    return {whole};
  }
};

const nn::StackOptions& layers_of(const LanguageModelConfig& config) { return config.decoder; }
const nn::StackOptions& layers_of(const TextEncoderConfig& config) { return config.encoder; }

// Heads that GGUF files do not have; `embed` does not use them.
bool is_head(const std::string& parameter) {
  return parameter.starts_with("pooler.") || parameter.starts_with("masked_language.") ||
         parameter.starts_with("next_sentence.");
}

template <class Model, class Family>
std::vector<GgufPart> parts_of_model(const Model& model, const Family& family,
                                     const GgufArchitecture& architecture) {
  const WeightMap map = own_layout(family.weight_map(model.config()),
                                   resolved(layers_of(model.config()).first()), architecture);
  std::map<std::string, Source> sources;
  std::vector<std::string> order;
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (!parameter.defined() || is_head(name)) return;
    const MappedName to = mapped_name(map, name);
    std::string own = GgufModel::own_name(architecture, to.name);
    if (own.empty()) {
      throw UsageError(concat(to.name, ": expected a tensor of ", family.model_type,
                              " that GGUF files have a name for, found none"));
    }
    Source& source = sources[own];
    if (source.parameters.empty()) order.push_back(own);
    source.parameters.emplace_back(parameter, to.rule);
    std::vector<int64_t> extents(parameter.shape.extents().begin(), parameter.shape.extents().end());
    if (to.rule.outputs > 0) extents.front() = to.rule.outputs;
    source.shape = Shape(extents);
  });
  std::vector<GgufPart> parts(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const Source& source = sources.at(order[i]);
    parts[i].as.name = order[i];
    parts[i].as.shape = source.shape;
    parts[i].numbers = [source] { return source.numbers(); };
  }
  return parts;
}

// The sampling that generation_config.json recommends, as llama.cpp's converter has it.
void put_sampling(const std::filesystem::path& folder, io::GgufMetadata& metadata) {
  const std::filesystem::path path = folder / kGenerationFile;
  if (!std::filesystem::exists(path)) return;
  const ConfigReader file(read_file(path), path.string());
  constexpr std::array<std::pair<const char*, const char*>, 3> kNumbers{
      {{"temperature", "temp"}, {"top_p", "top_p"}, {"min_p", "min_p"}}};
  const bool samples = file.boolean("do_sample", false);
  const auto put = [&](const char* theirs, const char* own) {
    if (file.has(theirs)) metadata.number(concat("general.sampling.", own), file.number(theirs, 0));
  };
  for (const auto& [theirs, own] : kNumbers) {
    if (samples) put(theirs, own);
  }
  if (samples && file.has("top_k")) metadata.integer("general.sampling.top_k", file.integer("top_k"));
  if (!samples && file.has("repetition_penalty")) metadata.number("general.sampling.temp", 0);
  put("repetition_penalty", "penalty_repeat");
  file.ignore(
      "temperature top_p min_p top_k do_sample bos_token_id eos_token_id pad_token_id transformers_version "
      "_from_model_config max_length max_new_tokens");
  for (const std::string& key : file.unread())
    log_warning(concat(path.string(), ": ", key, " has no counterpart in GGUF files"));
}

// Start and end tokens of the model, or of its tokenizer.
void put_special_tokens(const std::vector<int32_t>& starts, const std::vector<int32_t>& ends,
                        const text::SpecialTokens& tokens, const std::string& where,
                        io::GgufMetadata& metadata) {
  const auto put = [&](const char* name, std::optional<int32_t> id) {
    const std::string key = concat("tokenizer.ggml.", name);
    if (id) metadata.integer(key, *id);
  };
  if (!starts.empty()) put("bos_token_id", starts.front());
  constexpr std::array kEnds{"eos_token_id", "eot_token_id", "eom_token_id"};
  if (ends.size() > kEnds.size())
    throw UsageError(concat(where, ": eos_token_id: expected up to ", kEnds.size(),
                            " end tokens, for which GGUF files have keys, found ", ends.size()));
  for (size_t i = 0; i < ends.size(); ++i) put(kEnds[i], ends[i]);
  put("unknown_token_id", tokens.unk);
  put("padding_token_id", tokens.pad);
  put("cls_token_id", tokens.cls);
  put("seperator_token_id", tokens.sep);  // as ggml spells it
  put("mask_token_id", tokens.mask);
}

// Texts whose ids the two tokenizers must agree on, beyond the structure that put_gguf_tokenizer() checks.
constexpr std::array kProbes{
    "Hello, world!  It's 2024 -- 12345 apples\tand\n\n3 pears. ",
    " leading space, trailing space ",
    "Gr\xC3\xBC\xC3\x9F"
    "e aus \xE6\x9D\xB1\xE4\xBA\xAC \xF0\x9F\x99\x82\xF0\x9F\x8F\xBD e\xCC\x81 \xC3\xA9",
    "x=[1,2];\r\nif (a<b) { return \"q\"; } // 'tis\r\n",
    "WE'LL can't I'D  they've    \n  \n",
    ""};

void require_same_tokenizer(const std::filesystem::path& tokenizer, const std::string& json,
                            const text::Tokenizer& ours, const GgufModel& file) {
  const text::Tokenizer theirs = file.tokenizer();
  std::vector<std::string> probes(kProbes.begin(), kProbes.end());
  constexpr size_t kMost = 100;
  for (const JsonValue& token : parse_json(json, tokenizer.string())["added_tokens"].items()) {
    if (probes.size() < kMost) probes.push_back(concat("a ", token["content"].string(), " b"));
  }
  for (const std::string& probe : probes) {
    if (ours.encode(probe).ids != theirs.encode(probe).ids)
      throw DataError(
          concat(tokenizer.string(),
                 ": expected a tokenizer with a counterpart in GGUF files, found one that gives other "
                 "ids than its counterpart, of: ",
                 probe));
  }
}

// Of ids, each a number or a list, or null.
bool has_all(const nlohmann::json& ids, const nlohmann::json& some) {
  const auto list = [](const nlohmann::json& one) {
    return one.is_number()  ? std::vector{one.get<int64_t>()}
           : one.is_array() ? one.get<std::vector<int64_t>>()
                            : std::vector<int64_t>();
  };
  const std::vector<int64_t> all = list(ids);
  return std::ranges::all_of(list(some), [&](int64_t id) { return std::ranges::count(all, id) > 0; });
}

// Throws unless two fields of config.json are the same, numbers up to rounding to f32.
void require_same(const std::string& name, const nlohmann::json& ours, const nlohmann::json& theirs) {
  if (ours.is_object() && theirs.is_object()) {
    for (const auto& [key, value] : ours.items())
      require_same(concat(name, ".", key), value, theirs.value(key, nlohmann::json()));
    return;
  }
  if (ours.is_array() && theirs.is_array() && ours.size() == theirs.size()) {
    for (size_t i = 0; i < ours.size(); ++i) require_same(name, ours[i], theirs[i]);
    return;
  }
  constexpr double kRounding = 1e-6;
  const bool numbers = ours.is_number() && theirs.is_number();
  if (ours == theirs || (numbers && std::abs(ours.get<double>() - theirs.get<double>()) <=
                                        kRounding * std::abs(ours.get<double>())))
    return;
  throw UsageError(concat(name, ": expected a value that GGUF files have, found ", ours.dump(),
                          ", which would be read as ", theirs.dump()));
}

// What qkv reads from the file is what was written, but for dropout, which is of training, and end tokens
// that are found by their texts.
void require_same_settings(const std::string& written, const std::string& read, const std::string& where) {
  const auto ours = nlohmann::json::parse(written), theirs = nlohmann::json::parse(read);
  for (const auto& [key, value] : ours.items()) {
    const nlohmann::json found = theirs.value(key, nlohmann::json());
    if (key.ends_with("dropout") || key.ends_with("dropout_prob") || key.ends_with("pdrop")) continue;
    if (key == "eos_token_id" && has_all(found, value)) continue;
    require_same(concat(where, ": ", key), value, found);
  }
}

// The configuration without heads, of which a classifier would be missed.
LanguageModelConfig without_heads(const LanguageModelConfig& config, const std::string& /*where*/) {
  return config;
}

TextEncoderConfig without_heads(TextEncoderConfig config, const std::string& where) {
  if (config.labelled != ClassificationTarget::nothing)
    throw UsageError(concat(where,
                            ": architectures: expected a model without a classifier, which GGUF files do ",
                            "not have here, found a classifier"));
  if (config.masked_language || config.next_sentence)
    log_warning(
        concat(where, ": the heads of pre-training have no place in GGUF files; `embed` does not use them"));
  config.pooler = config.masked_language = config.next_sentence = false;
  return config;
}

std::vector<int32_t> start_ids(const LanguageModelConfig& config) { return config.bos_ids; }
std::vector<int32_t> end_ids(const LanguageModelConfig& config) { return config.eos_ids; }
std::vector<int32_t> start_ids(const TextEncoderConfig& /*config*/) { return {}; }
std::vector<int32_t> end_ids(const TextEncoderConfig& /*config*/) { return {}; }

void put_templates(const std::map<std::string, std::string>& templates, io::GgufMetadata& metadata) {
  std::vector<std::string> others;
  for (const auto& [name, source] : templates) {
    const bool usual = name == "default";
    metadata.text(concat("tokenizer.chat_template", usual ? "" : ".", usual ? "" : name), source);
    if (!usual) others.push_back(name);
  }
  if (!others.empty()) metadata.texts("tokenizer.chat_templates", others);
}

template <class Model, class Family>
GgufReport write_model(const Model& model, const Family& family, const GgufArchitecture& architecture,
                       const std::filesystem::path& from, const std::filesystem::path& to,
                       const GgufExport& options) {
  const std::string where = (from / "config.json").string();
  const std::string settings = family.serialize(without_heads(model.config(), where)).json();
  io::GgufMetadata metadata;
  metadata.text("general.architecture", architecture.name);
  GgufKeys keys{concat(architecture.name, '.'), metadata};
  architecture.put(ConfigReader(settings, where), keys);
  if (!options.pooling.empty()) keys.integer("pooling_type", GgufModel::pooling_type(options.pooling));
  metadata.text("general.type", "model");
  metadata.text("general.name", std::filesystem::canonical(from).filename().string());
  const std::filesystem::path tokenizer = from / kTokenizerFile;
  if (!std::filesystem::exists(tokenizer))
    throw DataError(
        concat(tokenizer.string(), ": expected this file, of which GGUF files have a copy, found none"));
  const std::string json = read_file(tokenizer);
  put_gguf_tokenizer(json, tokenizer.string(), model.config().vocabulary, metadata);
  const text::Tokenizer ours = load_tokenizer(from);
  put_special_tokens(start_ids(model.config()), end_ids(model.config()), ours.special_tokens(), where,
                     metadata);
  put_templates(options.chat_templates, metadata);
  put_sampling(from, metadata);
  std::vector<GgufPart> parts;
  for (const auto& [name, numbers] : keys.vectors) {
    Tensor values = Tensor::empty(Shape{std::ssize(numbers)}, DType::f32);
    std::ranges::copy(numbers, values.values().begin());
    GgufPart& part = parts.emplace_back();
    part.as.name = name;
    part.as.shape = values.shape();
    part.numbers = [values] { return QuantizedTensor{values}; };
    part.describes = true;
  }
  std::ranges::move(parts_of_model(model, family, architecture), std::back_inserter(parts));
  return write_gguf(to, metadata, parts, options, [&](const GgufModel& file) {
    require_same_tokenizer(tokenizer, json, ours, file);
    const auto read = family.parse(ConfigReader(file.config_json(), to.string()));
    require_same_settings(settings, family.serialize(read).json(), where);
  });
}

}  // namespace

GgufReport gguf_from_folder(const std::filesystem::path& from, const std::filesystem::path& to,
                            const GgufExport& options) {
  const std::string type = family_of(from), where = (from / "config.json").string();
  const auto all = gguf_architectures();
  const auto architecture = std::ranges::find(all, type, &GgufArchitecture::model_type);
  const FolderKind kind = folder_kind(from);
  if (architecture == all.end() || kind == FolderKind::translation || kind == FolderKind::image ||
      kind == FolderKind::speech) {
    std::string known;
    for (const GgufArchitecture& one : all) known += concat(known.empty() ? "" : ", ", one.model_type);
    throw UsageError(concat(where, ": model_type: expected one that is written as a GGUF file (", known,
                            "), found ", type));
  }
  if (kind == FolderKind::language) {
    return write_model(*load_language_model(from), *find_family(language_families(), type), *architecture,
                       from, to, options);
  }
  return write_model(*load_text_encoder(from), *find_family(encoder_families(), type), *architecture, from,
                     to, options);
}

}  // namespace qkv::models

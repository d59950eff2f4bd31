#include "qkv/models/hub/config_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "qkv/base/error.h"

namespace qkv::models {

using kernels::Activation;
using nlohmann::ordered_json;

struct ConfigReader::Object {
  ordered_json fields;
  std::string where;  // the file, and the way to this object
  std::set<std::string> asked_for;

  // Null where there is no such field.
  const ordered_json& at(const std::string& key) {
    static const ordered_json kNull;
    asked_for.insert(key);
    const auto found = fields.find(key);
    return found == fields.end() ? kNull : *found;
  }
};

namespace {

constexpr size_t kLongest = 80;  // characters of a file that a message repeats
constexpr int kDeepest = 64;     // values within values; to copy or to print more may take the whole stack

std::string excerpt(const ordered_json& value) {
  if (value.is_null()) return "nothing";
  if (value.is_structured() && value.size() > 8) return value.type_name();
  const std::string text = value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

constexpr std::array<std::pair<std::string_view, Activation>, 8> kActivations{
    {{"relu", Activation::relu},
     {"gelu", Activation::gelu_exact},
     {"gelu_new", Activation::gelu_tanh},
     {"gelu_pytorch_tanh", Activation::gelu_tanh},
     {"silu", Activation::silu},
     {"swish", Activation::silu},
     {"tanh", Activation::tanh},
     {"linear", Activation::identity}}};

// Of every model: where it came from, how it was trained, how transformers runs it. Versions before 4 wrote
// all of these, with how a text would be decoded (generation_config.json says that, or whoever asks).
constexpr std::array<std::string_view, 73> kIrrelevant{"_attn_implementation",
                                                       "_attn_implementation_autoset",
                                                       "_commit_hash",
                                                       "_model_name_or_path",
                                                       "_name_or_path",
                                                       "_num_labels",
                                                       "architectures",
                                                       "attn_implementation",
                                                       "auto_map",
                                                       "bad_words_ids",
                                                       "begin_suppress_tokens",
                                                       "bos_token_id",
                                                       "chunk_size_feed_forward",
                                                       "cross_attention_hidden_size",
                                                       "decoder_start_token_id",
                                                       "diversity_penalty",
                                                       "do_sample",
                                                       "dtype",
                                                       "early_stopping",
                                                       "encoder_no_repeat_ngram_size",
                                                       "eos_token_id",
                                                       "eos_token_ids",
                                                       "exponential_decay_length_penalty",
                                                       "finetuning_task",
                                                       "forced_bos_token_id",
                                                       "forced_eos_token_id",
                                                       "gradient_checkpointing",
                                                       "id2label",
                                                       "initializer_range",
                                                       "keys_to_ignore_at_inference",
                                                       "label2id",
                                                       "language",
                                                       "length_penalty",
                                                       "max_length",
                                                       "min_length",
                                                       "model_type",
                                                       "name_or_path",
                                                       "no_repeat_ngram_size",
                                                       "num_beam_groups",
                                                       "num_beams",
                                                       "num_labels",
                                                       "num_return_sequences",
                                                       "output_attentions",
                                                       "output_hidden_states",
                                                       "output_past",
                                                       "output_scores",
                                                       "pad_token_id",
                                                       "prefix",
                                                       "problem_type",
                                                       "remove_invalid_values",
                                                       "renormalize_logits",
                                                       "repetition_penalty",
                                                       "return_dict",
                                                       "return_dict_in_generate",
                                                       "sep_token_id",
                                                       "suppress_tokens",
                                                       "task_specific_params",
                                                       "temperature",
                                                       "tf_legacy_loss",
                                                       "tokenizer_class",
                                                       "top_k",
                                                       "top_p",
                                                       "torch_dtype",
                                                       "torchscript",
                                                       "transformers.js_config",
                                                       "transformers_version",
                                                       "typical_p",
                                                       "unk_token_id",
                                                       "unsloth_fixed",
                                                       "unsloth_version",
                                                       "use_bfloat16",
                                                       "use_cache",
                                                       "xla_device"};

bool is_listed(std::span<const std::string_view> list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

}  // namespace

std::optional<Activation> activation_of(std::string_view name) {
  const auto* found = std::ranges::find(kActivations, name, &decltype(kActivations)::value_type::first);
  return found == kActivations.end() ? std::nullopt : std::optional(found->second);
}

const char* activation_name(Activation activation) {
  for (const auto& [name, value] : kActivations) {
    if (value == activation) return name.data();
  }
  return "unknown";
}

double decimal(float value) {
  std::array<char, 32> text{};
  const char* end = std::to_chars(text.begin(), text.end(), value).ptr;
  double result = 0;
  std::from_chars(text.begin(), end, result);
  return result;
}

namespace {

ordered_json parsed(const std::string& text, const std::string& path) {
  const auto refuse_depth = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kDeepest)
      throw DataError(concat(path, ": expected values nested at most ", kDeepest, " deep, found more"));
    return true;
  };
  try {
    return ordered_json::parse(text, refuse_depth);
  } catch (const ordered_json::exception& error) {  // of its syntax, or a number that is too large for one
    throw DataError(concat(path, ": expected JSON: ", error.what()));
  }
}

}  // namespace

ConfigReader::ConfigReader(const std::string& text, const std::string& path)
    : object_(std::make_shared<Object>(Object{parsed(text, path), path, {}})) {
  if (!object_->fields.is_object()) {
    throw DataError(concat(path, ": expected a JSON object, found ", object_->fields.type_name()));
  }
}

std::vector<ConfigReader> ConfigReader::list(const std::string& text, const std::string& path) {
  const ordered_json all = parsed(text, path);
  if (!all.is_array()) throw DataError(concat(path, ": expected a JSON list, found ", all.type_name()));
  std::vector<ConfigReader> objects;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string where = concat(path, ": [", i, "]");
    if (!all[i].is_object()) throw DataError(concat(where, ": expected an object, found ", excerpt(all[i])));
    objects.push_back(ConfigReader(std::make_shared<Object>(Object{all[i], where, {}})));
  }
  return objects;
}

void ConfigReader::refuse(const std::string& key, const std::string& expected) const {
  throw DataError(
      concat(object_->where, ": \"", key, "\": expected ", expected, ", found ", excerpt(object_->at(key))));
}

bool ConfigReader::has(const std::string& key) const { return !object_->at(key).is_null(); }

int64_t ConfigReader::whole(const std::string& key) const {
  const ordered_json& value = object_->at(key);
  if (!value.is_number_integer()) refuse(key, "a whole number");
  return value.get<int64_t>();
}

int64_t ConfigReader::whole(const std::string& key, int64_t otherwise) const {
  return has(key) ? whole(key) : otherwise;
}

double ConfigReader::number(const std::string& key, double otherwise) const {
  const ordered_json& value = object_->at(key);
  if (value.is_null()) return otherwise;
  if (!value.is_number()) refuse(key, "a number");
  return value.get<double>();
}

bool ConfigReader::flag(const std::string& key, bool otherwise) const {
  const ordered_json& value = object_->at(key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

std::string ConfigReader::text(const std::string& key) const {
  const ordered_json& value = object_->at(key);
  if (!value.is_string()) refuse(key, "a string");
  return value.get<std::string>();
}

std::string ConfigReader::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

Activation ConfigReader::activation(const std::string& key) const {
  if (const auto found = activation_of(text(key))) return *found;
  std::string known;
  for (const auto& [word, value] : kActivations) known += concat(known.empty() ? "" : ", ", word);
  refuse(key, concat("one of ", known));
}

Activation ConfigReader::activation(const std::string& key, const std::string& otherwise) const {
  return has(key) ? activation(key) : activation_of(otherwise).value_or(Activation::identity);
}

std::vector<int32_t> ConfigReader::ids(const std::string& key) const {
  const ordered_json& value = object_->at(key);
  if (value.is_null()) return {};
  std::vector<int32_t> ids;
  for (const ordered_json& id : value.is_array() ? value : ordered_json::array({value})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) refuse(key, "an id or a list of them");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::vector<double> ConfigReader::numbers(const std::string& key) const {
  const ordered_json& value = object_->at(key);
  if (value.is_null()) return {};
  std::vector<double> numbers;
  for (const ordered_json& number : value.is_array() ? value : ordered_json::array({value})) {
    if (!number.is_number()) refuse(key, "a number or a list of them");
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

std::vector<std::string> ConfigReader::texts(const std::string& key) const {
  const ordered_json& value = object_->at(key);
  if (value.is_null()) return {};
  if (!value.is_array() || !std::ranges::all_of(value, [](const auto& text) { return text.is_string(); })) {
    refuse(key, "a list of strings");
  }
  return value.get<std::vector<std::string>>();
}

std::vector<std::pair<std::string, std::string>> ConfigReader::entries(const std::string& key) const {
  const ordered_json& value = object_->at(key);
  if (value.is_null()) return {};
  if (!value.is_object()) refuse(key, "an object");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, field] : value.items()) {
    entries.emplace_back(name, field.is_string() ? field.get<std::string>() : field.dump());
  }
  return entries;
}

ConfigReader ConfigReader::object(const std::string& key) const {
  const ordered_json& value = object_->at(key);
  if (!value.is_object()) refuse(key, "an object");
  auto inner = std::make_shared<Object>();
  inner->fields = value;
  inner->where = concat(object_->where, ": \"", key, "\"");
  return ConfigReader(std::move(inner));
}

bool ConfigReader::is_object(const std::string& key) const { return object_->at(key).is_object(); }

void ConfigReader::require_flag(const std::string& key, bool value) const {
  if (flag(key, value) != value) refuse(key, value ? "true" : "false");
}

void ConfigReader::require_whole(const std::string& key, int64_t value) const {
  if (whole(key, value) != value) refuse(key, std::to_string(value));
}

void ConfigReader::require_text(const std::string& key, const std::string& value) const {
  if (text(key, value) != value) refuse(key, concat("\"", value, "\""));
}

void ConfigReader::reject_unknown_fields(std::span<const std::string_view> irrelevant) const {
  for (const auto& [key, value] : object_->fields.items()) {
    if (value.is_null() || object_->asked_for.contains(key) || is_listed(irrelevant, key)) continue;
    throw DataError(concat(object_->where, ": expected no field \"", key,
                           "\", as nothing here knows what it means, found ", excerpt(value),
                           " (if it says nothing about what is computed, take it out of the file)"));
  }
}

void ConfigReader::refuse_the_rest_of_a_model(std::span<const std::string_view> irrelevant) const {
  if (!entries("pruned_heads").empty()) refuse("pruned_heads", "none");
  require_flag("tie_encoder_decoder", false);
  std::vector<std::string_view> all(kIrrelevant.begin(), kIrrelevant.end());
  all.insert(all.end(), irrelevant.begin(), irrelevant.end());
  reject_unknown_fields(all);
}

}  // namespace qkv::models

#include "qkv/models/hub/config_reader.h"

#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include "qkv/base/error.h"

namespace qkv::models {

struct ConfigReader::Object {
  JsonValue value;
  std::set<std::string, std::less<>> read;
};

namespace {

constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();

// Fields of every model that concern its origin, its training, or how transformers runs it. Versions before 4
// wrote all of these, and decoding options (which generation_config.json or the caller supplies).
constexpr std::string_view kIrrelevant =
    "_attn_implementation _attn_implementation_autoset _commit_hash _model_name_or_path _name_or_path "
    "_num_labels architectures attn_implementation auto_map bad_words_ids begin_suppress_tokens "
    "bos_token_id cache_implementation chunk_size_feed_forward cross_attention_hidden_size "
    "decoder_start_token_id "
    "diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id "
    "eos_token_ids exponential_decay_length_penalty finetuning_task forced_bos_token_id "
    "forced_eos_token_id gradient_checkpointing id2label initializer_range keys_to_ignore_at_inference "
    "label2id language length_penalty max_length min_length model_type name name_or_path "
    "no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences output_attentions "
    "output_hidden_states output_past output_scores pad_token_id prefix problem_type "
    "remove_invalid_values renormalize_logits repetition_penalty return_dict return_dict_in_generate "
    "sbert_ce_default_activation_function sentence_transformers sep_token_id suppress_tokens "
    "task_specific_params temperature tf_legacy_loss tokenizer_class "
    "top_k top_p torch_dtype torchscript transformers.js_config transformers_version typical_p "
    "unk_token_id unsloth_fixed unsloth_version use_bfloat16 use_cache xla_device";

// Fields of every model that are false unless its family reads them.
constexpr std::string_view kRoles = "add_cross_attention is_decoder is_encoder_decoder tie_encoder_decoder";

// The items of a list, or the value itself if it is not a list.
std::vector<JsonValue> items_of(const JsonValue& value) {
  return value.is_array() ? value.items() : std::vector{value};
}

}  // namespace

std::vector<std::string> words_of(std::string_view list) {
  std::istringstream words{std::string(list)};
  return {std::istream_iterator<std::string>(words), {}};
}

ConfigReader::ConfigReader(const JsonValue& object) : object_(std::make_shared<Object>(Object{object, {}})) {
  if (!object.is_object()) object.fail("an object");
}

ConfigReader::ConfigReader(std::string_view text, const std::string& path)
    : ConfigReader(parse_json(text, path)) {}

std::vector<ConfigReader> ConfigReader::list(std::string_view text, const std::string& path) {
  std::vector<ConfigReader> objects;
  for (const JsonValue& item : parse_json(text, path).items()) objects.push_back(ConfigReader(item));
  return objects;
}

std::optional<JsonValue> ConfigReader::find(std::string_view key) const {
  object_->read.emplace(key);
  return object_->value.find(key);
}

void ConfigReader::reject(std::string_view key, const std::string& expected) const {
  if (const auto value = find(key)) value->fail(expected);
  throw DataError(concat(object_->value.path_of(key), ": expected ", expected, ", found nothing"));
}

bool ConfigReader::has(std::string_view key) const { return find(key).has_value(); }

bool ConfigReader::is_null(std::string_view key) const {
  bool found = false;
  object_->value.members([&](std::string_view name, const JsonValue& value) {
    found = found || (name == key && value.is_null());
  });
  return found;
}

int64_t ConfigReader::integer(std::string_view key) const {
  const auto value = find(key);
  if (!value) reject(key, "an integer");
  return value->integer(kLeast, kMost);
}

int64_t ConfigReader::integer(std::string_view key, int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

double ConfigReader::number(std::string_view key, double otherwise) const {
  const auto value = find(key);
  return value ? value->number() : otherwise;
}

bool ConfigReader::boolean(std::string_view key, bool otherwise) const {
  const auto value = find(key);
  return value ? value->boolean() : otherwise;
}

std::string ConfigReader::string(std::string_view key) const {
  const auto value = find(key);
  if (!value) reject(key, "a string");
  return value->string();
}

std::string ConfigReader::string(std::string_view key, const std::string& otherwise) const {
  return has(key) ? string(key) : otherwise;
}

std::vector<int32_t> ConfigReader::ids(std::string_view key) const {
  std::vector<int32_t> ids;
  const auto value = find(key);
  if (!value) return ids;
  for (const JsonValue& item : items_of(*value)) ids.push_back(static_cast<int32_t>(item.integer(-1, kMost)));
  return ids;
}

std::vector<double> ConfigReader::numbers(std::string_view key) const {
  std::vector<double> numbers;
  const auto value = find(key);
  if (!value) return numbers;
  for (const JsonValue& item : items_of(*value)) numbers.push_back(item.number());
  return numbers;
}

std::vector<std::string> ConfigReader::strings(std::string_view key) const {
  std::vector<std::string> strings;
  const auto value = find(key);
  if (!value) return strings;
  for (const JsonValue& item : value->items()) strings.push_back(item.string());
  return strings;
}

std::vector<std::pair<std::string, std::string>> ConfigReader::entries(std::string_view key) const {
  std::vector<std::pair<std::string, std::string>> entries;
  const auto value = find(key);
  if (!value) return entries;
  value->members([&](std::string_view name, const JsonValue& field) {
    entries.emplace_back(name, field.is_string() ? field.string() : field.excerpt());
  });
  return entries;
}

ConfigReader ConfigReader::object(std::string_view key) const {
  const auto value = find(key);
  if (!value) reject(key, "an object");
  return ConfigReader(*value);
}

bool ConfigReader::is_object(std::string_view key) const {
  const auto value = find(key);
  return value && value->is_object();
}

void ConfigReader::require_boolean(std::string_view key, bool value) const {
  if (boolean(key, value) != value) reject(key, value ? "true" : "false");
}

void ConfigReader::require_integer(std::string_view key, int64_t value) const {
  if (integer(key, value) != value) reject(key, std::to_string(value));
}

void ConfigReader::require_string(std::string_view key, const std::string& value) const {
  if (string(key, value) != value) reject(key, quoted_json(value));
}

void ConfigReader::ignore(std::string_view keys) const {
  for (std::string& key : words_of(keys)) object_->read.insert(std::move(key));
}

ConfigReader ConfigReader::afresh() const { return ConfigReader(object_->value); }

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> keys;
  object_->value.members([&](std::string_view key, const JsonValue& value) {
    if (!value.is_null() && !object_->read.contains(key)) keys.emplace_back(key);
  });
  return keys;
}

void ConfigReader::reject_unknown_fields() const {
  const std::vector<std::string> keys = unread();
  if (keys.empty()) return;
  throw DataError(concat(object_->value.path_of(keys.front()),
                         ": unknown field; remove it if it does not affect results"));
}

void ConfigReader::reject_unknown_model_fields() const {
  if (!entries("pruned_heads").empty()) reject("pruned_heads", "none");
  for (const std::string& key : words_of(kRoles)) {
    if (!object_->read.contains(key)) require_boolean(key, false);
  }
  ignore_common();
  reject_unknown_fields();
}

void ConfigReader::ignore_common() const {
  ignore(kIrrelevant);
  ignore(kRoles);
  ignore("pruned_heads");
}

}  // namespace qkv::models

#include "qkv/models/hub/generation_defaults.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "qkv/base/files.h"
#include "qkv/base/json.h"

namespace qkv::models {

using nlohmann::json;

namespace {

// max_length and min_length in files include the start and end tokens.
constexpr int kStartAndEnd = 2;
constexpr int kMaxTokens = 1'000'000'000, kMaxBeams = 1024;

// Fields that are a single number or flag with the same meaning in files.
template <class Defaults, class Visitor>
void visit_defaults(Defaults& defaults, const Visitor& visitor) {
  visitor("num_beams", defaults.beam);
  visitor("length_penalty", defaults.length_penalty);
  visitor("no_repeat_ngram_size", defaults.no_repeat_ngram);
  visitor("repetition_penalty", defaults.repetition_penalty);
  visitor("renormalize_logits", defaults.renormalize);
  visitor("temperature", defaults.temperature);
  visitor("top_k", defaults.top_k);
  visitor("top_p", defaults.top_p);
  visitor("min_p", defaults.min_p);
}

void read(const JsonValue& value, std::string_view key, int& field) {
  const bool beams = key == "num_beams";
  field = static_cast<int>(value.integer(beams ? 1 : 0, beams ? kMaxBeams : kMaxTokens));
}
void read(const JsonValue& value, std::string_view, float& field) {
  field = static_cast<float>(value.number());
}
void read(const JsonValue& value, std::string_view, double& field) { field = value.number(); }
void read(const JsonValue& value, std::string_view, bool& field) { field = value.boolean(); }

EarlyStopping early_stopping_of(const JsonValue& value) {
  if (value.is_string() && value.string() == "never") return EarlyStopping::exact;
  if (!value.is_boolean()) value.fail("true, false or \"never\"");
  return value.boolean() ? EarlyStopping::when_full : EarlyStopping::heuristic;
}

std::vector<int32_t> ids_of(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : list.items())
    ids.push_back(static_cast<int32_t>(id.integer(0, std::numeric_limits<int32_t>::max())));
  if (ids.empty()) list.fail("at least one id");
  return ids;
}

json fields_of(const GenerationDefaults& defaults) {
  json fields;
  visit_defaults(defaults, [&]<class Field>(const char* key, const Field& field) {
    if constexpr (std::is_same_v<Field, float>) {
      fields[key] = decimal(field);
    } else {
      fields[key] = field;
    }
  });
  if (defaults.min_new_tokens > 0) fields["min_length"] = int64_t{defaults.min_new_tokens} + kStartAndEnd - 1;
  fields["early_stopping"] = defaults.early_stopping == EarlyStopping::exact
                                 ? json("never")
                                 : json(defaults.early_stopping == EarlyStopping::when_full);
  return fields;
}

}  // namespace

GenerationDefaults load_generation_defaults(const std::filesystem::path& folder) {
  const auto exists = [](const std::filesystem::path& path) {
    return with_io_errors([&] { return std::filesystem::exists(path); });
  };
  std::filesystem::path path = folder / "generation_config.json";
  if (!exists(path)) path = folder / "config.json";
  GenerationDefaults defaults{.beam = 1, .length_penalty = 1};
  if (!exists(path)) return defaults;
  const JsonValue object = parse_json(read_file(path), path.string());
  visit_defaults(defaults, [&](const char* key, auto& field) {
    if (const auto found = object.find(key)) read(*found, key, field);
  });
  const auto tokens = [&](const char* key, int counted_beside, int& field) {
    if (const auto found = object.find(key))
      field = static_cast<int>(std::max(found->integer(0, kMaxTokens) - counted_beside, int64_t{0}));
  };
  tokens("max_length", kStartAndEnd, defaults.max_new_tokens);
  tokens("max_new_tokens", 1, defaults.max_new_tokens);
  defaults.max_new_tokens = std::max(defaults.max_new_tokens, 1);
  tokens("min_length", kStartAndEnd - 1, defaults.min_new_tokens);
  tokens("min_new_tokens", 0, defaults.min_new_tokens);
  if (const auto found = object.find("bad_words_ids")) {
    for (const JsonValue& word : found->items()) defaults.bad_words.push_back(ids_of(word));
  }
  if (const auto found = object.find("early_stopping")) defaults.early_stopping = early_stopping_of(*found);
  return defaults;
}

std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults) {
  std::vector<std::vector<int32_t>> bad_words = defaults.bad_words;
  const std::vector<int32_t> pad{static_cast<int32_t>(config.pad_id)};
  if (std::ranges::count(bad_words, pad) == 0) bad_words.push_back(pad);
  // Beyond its positions, generate() of transformers fails.
  const int64_t max_length =
      std::min(int64_t{defaults.max_new_tokens} + kStartAndEnd, config.max_tokens().value_or(kMaxTokens));
  json object{{"num_beams", defaults.beam},    {"length_penalty", defaults.length_penalty},
              {"max_length", max_length},      {"bad_words_ids", bad_words},
              {"eos_token_id", config.eos_id}, {"forced_eos_token_id", config.eos_id},
              {"pad_token_id", config.pad_id}, {"decoder_start_token_id", config.decoder_start_id}};
  // Other fields are written only if they differ from the defaults.
  const json usual = fields_of(GenerationDefaults()), own = fields_of(defaults);
  for (const auto& [key, value] : own.items()) {
    const bool differs = !usual.contains(key) || value != usual[key];
    if (differs && !object.contains(key)) object[key] = value;
  }
  return object.dump(2) + "\n";
}

}  // namespace qkv::models

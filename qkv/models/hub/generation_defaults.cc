#include "qkv/models/hub/generation_defaults.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::models {

using nlohmann::json;

namespace {

// The fields that are one number or flag, by the names that files have for them.
template <class Defaults, class Visitor>
void visit_fields(Defaults& defaults, const Visitor& visitor) {
  visitor("num_beams", defaults.beam);
  visitor("length_penalty", defaults.length_penalty);
  visitor("max_length", defaults.max_length);
  visitor("min_length", defaults.min_length);
  visitor("no_repeat_ngram_size", defaults.no_repeat_ngram);
  visitor("repetition_penalty", defaults.repetition_penalty);
  visitor("renormalize_logits", defaults.renormalize);
  visitor("temperature", defaults.temperature);
  visitor("top_k", defaults.top_k);
  visitor("top_p", defaults.top_p);
  visitor("min_p", defaults.min_p);
}

EarlyStopping early_stopping_of(const json& value) {
  if (value == "never") return EarlyStopping::exact;
  return value.get<bool>() ? EarlyStopping::when_full : EarlyStopping::heuristic;
}

json fields_of(const GenerationDefaults& defaults) {
  json fields;
  visit_fields(defaults, [&](const char* key, const auto& field) { fields[key] = field; });
  fields["early_stopping"] = defaults.early_stopping == EarlyStopping::exact
                                 ? json("never")
                                 : json(defaults.early_stopping == EarlyStopping::when_full);
  return fields;
}

}  // namespace

GenerationDefaults load_generation_defaults(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "generation_config.json";
  if (!std::filesystem::exists(path)) path = folder / "config.json";
  GenerationDefaults defaults{.beam = 1, .length_penalty = 1};
  if (!std::filesystem::exists(path)) return defaults;
  try {
    const json object = json::parse(read_file(path));
    if (!object.is_object())
      throw DataError(concat(path.string(), ": expected a JSON object, found ", object.type_name()));
    const auto find = [&](const char* key) {
      const auto found = object.find(key);
      return found == object.end() || found->is_null() ? nullptr : &*found;
    };
    visit_fields(defaults, [&](const char* key, auto& field) {
      if (const json* found = find(key)) found->get_to(field);
    });
    if (const json* found = find("bad_words_ids")) found->get_to(defaults.bad_words);
    if (const json* found = find("early_stopping")) defaults.early_stopping = early_stopping_of(*found);
  } catch (const json::exception& error) {
    throw DataError(concat(path.string(), ": expected a JSON object of decoding options: ", error.what()));
  }
  if (std::ranges::any_of(defaults.bad_words, [](const auto& ids) { return ids.empty(); })) {
    throw DataError(
        concat(path.string(), ": \"bad_words_ids\": expected ids in each list, found none in one"));
  }
  return defaults;
}

std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults) {
  std::vector<std::vector<int32_t>> bad_words = defaults.bad_words;
  const std::vector<int32_t> pad{static_cast<int32_t>(config.pad_id)};
  if (std::ranges::count(bad_words, pad) == 0) bad_words.push_back(pad);
  json object{{"num_beams", defaults.beam},        {"length_penalty", defaults.length_penalty},
              {"max_length", defaults.max_length}, {"bad_words_ids", bad_words},
              {"eos_token_id", config.eos_id},     {"forced_eos_token_id", config.eos_id},
              {"pad_token_id", config.pad_id},     {"decoder_start_token_id", config.decoder_start_id}};
  // Of the rest, what is not as everywhere.
  const json usual = fields_of(GenerationDefaults()), own = fields_of(defaults);
  for (const auto& [key, value] : own.items()) {
    if (!object.contains(key) && value != usual[key]) object[key] = value;
  }
  return object.dump(2) + "\n";
}

}  // namespace qkv::models

#include "qkv/models/hub/generation_defaults.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::models {

using nlohmann::json;

namespace {

// A file's max_length and min_length count the start token and the end as well.
constexpr int kStartAndEnd = 2;
constexpr int kMaxTokens = 1'000'000'000;

struct IntegerRange {
  int64_t least, most;
};

IntegerRange range_of(std::string_view key) {
  if (key == "num_beams") return {1, 1024};
  return {0, kMaxTokens};
}

// An integer within its range. 4294967316 is none: a narrowing conversion would make 20 of it.
int integer(const json& value, std::string_view key) {
  const auto [least, most] = range_of(key);
  if (value.is_number_integer() && value >= least && value <= most) return value.get<int>();
  throw DataError(
      concat("\"", key, "\": expected an integer from ", least, " to ", most, ", found ", value.dump()));
}

// The fields that are one number or flag and mean the same here, by their names in files.
template <class Defaults, class Visitor>
void visit_fields(Defaults& defaults, const Visitor& visitor) {
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

EarlyStopping early_stopping_of(const json& value) {
  if (value == "never") return EarlyStopping::exact;
  return value.get<bool>() ? EarlyStopping::when_full : EarlyStopping::heuristic;
}

json fields_of(const GenerationDefaults& defaults) {
  json fields;
  visit_fields(defaults, [&](const char* key, const auto& field) { fields[key] = field; });
  if (defaults.min_new_tokens > 0) fields["min_length"] = defaults.min_new_tokens + kStartAndEnd - 1;
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
    if (!object.is_object()) throw DataError(concat("expected a JSON object, found ", object.type_name()));
    const auto find = [&](const char* key) {
      const auto found = object.find(key);
      return found == object.end() || found->is_null() ? nullptr : &*found;
    };
    visit_fields(defaults, [&]<class Field>(const char* key, Field& field) {
      const json* found = find(key);
      if (found == nullptr) return;
      if constexpr (std::is_same_v<Field, int>) {
        field = integer(*found, key);
      } else {
        found->get_to(field);
      }
    });
    const auto tokens = [&](const char* key, int counted_beside, int& field) {
      if (const json* found = find(key)) field = std::max(integer(*found, key) - counted_beside, 0);
    };
    tokens("max_length", kStartAndEnd, defaults.max_new_tokens);
    tokens("max_new_tokens", 1, defaults.max_new_tokens);
    defaults.max_new_tokens = std::max(defaults.max_new_tokens, 1);
    tokens("min_length", kStartAndEnd - 1, defaults.min_new_tokens);
    tokens("min_new_tokens", 0, defaults.min_new_tokens);
    if (const json* found = find("bad_words_ids")) found->get_to(defaults.bad_words);
    if (const json* found = find("early_stopping")) defaults.early_stopping = early_stopping_of(*found);
  } catch (const json::exception& error) {
    throw DataError(concat(path.string(), ": expected a JSON object of decoding options: ", error.what()));
  } catch (const DataError& error) {
    throw DataError(concat(path.string(), ": ", error.what()));
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
  json object{{"num_beams", defaults.beam},
              {"length_penalty", defaults.length_penalty},
              {"max_length", defaults.max_new_tokens + kStartAndEnd},
              {"bad_words_ids", bad_words},
              {"eos_token_id", config.eos_id},
              {"forced_eos_token_id", config.eos_id},
              {"pad_token_id", config.pad_id},
              {"decoder_start_token_id", config.decoder_start_id}};
  // Of the other fields those that differ from the defaults.
  const json usual = fields_of(GenerationDefaults()), own = fields_of(defaults);
  for (const auto& [key, value] : own.items()) {
    if (!object.contains(key) && value != usual[key]) object[key] = value;
  }
  return object.dump(2) + "\n";
}

}  // namespace qkv::models

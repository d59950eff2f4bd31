#include "qkv/models/hub/generation_defaults.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/model_file.h"

namespace qkv::models {

using nlohmann::json;

namespace {

// max_length and min_length of encoder-decoders include the start token.
constexpr int kStart = 1;
constexpr int kMaxTokens = 1'000'000'000, kMaxBeams = 1024;

// Fields that are a single number or flag with the same meaning in files.
template <class Defaults, class Visitor>
void visit_defaults(Defaults& defaults, const Visitor& visitor) {
  visitor("num_beams", defaults.beam);
  visitor("length_penalty", defaults.length_penalty);
  visitor("no_repeat_ngram_size", defaults.no_repeat_ngram);
  visitor("repetition_penalty", defaults.repetition_penalty);
  visitor("renormalize_logits", defaults.renormalize);
  Sampling::visit_fields(defaults.sampling, [&](const OptionField& field, auto& value) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(value)>, uint64_t>) visitor(field.name, value);
  });
  visitor("encoder_no_repeat_ngram_size", defaults.rules.encoder_no_repeat_ngram);
  visitor("encoder_repetition_penalty", defaults.rules.encoder_repetition_penalty);
}

// Fields of decoding methods that qkv lacks, with the value that switches them off.
struct Unsupported {
  std::string_view key;
  double value;
  bool sampling = false;  // affects sampling alone
};
constexpr auto kUnsupported = std::to_array<Unsupported>({
    {"assistant_early_exit", 0},
    {"constraints", 0},
    {"dola_layers", 0},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
    {"force_words_ids", 0},
    {"guidance_scale", 1},
    {"max_time", 0},
    {"mirostat", 0, true},
    {"num_beam_groups", 1},
    {"num_return_sequences", 1},
    {"penalty_alpha", 0},
    {"stop_strings", 0},
    {"token_healing", 0},
    {"top_h", 0, true},
    {"typical_p", 1, true},
    {"watermarking_config", 0},
    {"xtc_probability", 0, true},
});

// Fields that do not affect results, or that the model's configuration reads (ids).
constexpr std::string_view kIrrelevantFields =
    "_commit_hash _from_model_config _name_or_path assistant_confidence_threshold "
    "assistant_ensemble_weight assistant_lookbehind bos_token_id cache_config cache_implementation "
    "compile_config continuous_batching_config decoder_start_token_id disable_compile "
    "diversity_penalty do_sample is_assistant low_memory max_cache_len max_matching_ngram_size "
    "name_or_path num_assistant_tokens num_assistant_tokens_schedule output_attentions "
    "output_hidden_states output_logits output_scores pad_token_id prefill_chunk_size "
    "prompt_lookup_num_tokens remove_invalid_values return_dict_in_generate return_legacy_cache "
    "speculation_type target_lookbehind transformers_version trust_remote_code use_cache use_mtp";

bool is_neutral(const JsonValue& value, double neutral) {
  if (value.is_boolean()) return (value.boolean() ? 1.0 : 0.0) == neutral;
  if (value.is_array() || value.is_object()) return value.size() == 0;
  return value.is_number() && value.number() == neutral;
}

// Notes the first unsupported field of each kind.
void note_unsupported(const ConfigReader& object, GenerationDefaults& defaults) {
  for (const auto& [key, neutral, sampling] : kUnsupported) {
    std::string& noted = sampling ? defaults.unsupported_sampling : defaults.unsupported;
    const auto value = object.find(key);
    if (!value || !noted.empty() || is_neutral(*value, neutral)) continue;
    noted =
        concat(value->path(), ": expected no such field, as it is not supported, found ", value->excerpt());
  }
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

int32_t id_of(const JsonValue& value) {
  return static_cast<int32_t>(value.integer(0, std::numeric_limits<int32_t>::max()));
}

// An id or a list of ids; empty if missing.
std::vector<int32_t> ids_of(const std::optional<JsonValue>& value) {
  std::vector<int32_t> ids;
  if (value && !value->is_array()) return {id_of(*value)};
  if (value) {
    for (const JsonValue& id : value->items()) ids.push_back(id_of(id));
  }
  return ids;
}

// A list of at least one id.
std::vector<int32_t> sequence_of(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : list.items()) ids.push_back(id_of(id));
  if (ids.empty()) list.fail("at least one id");
  return ids;
}

TokenRules rules_of(const ConfigReader& object, TokenRules rules) {
  if (const auto biases = object.find("sequence_bias")) {
    for (const JsonValue& pair : biases->items()) {
      if (pair.size() != 2) pair.fail("a list of ids, and a bias");
      const std::vector<JsonValue> parts = pair.items();
      rules.sequence_bias.push_back({sequence_of(parts[0]), static_cast<float>(parts[1].number())});
    }
  }
  if (const auto id = object.find("forced_bos_token_id")) rules.forced_bos = id_of(*id);
  rules.begin_suppress_tokens = ids_of(object.find("begin_suppress_tokens"));
  if (const auto decay = object.find("exponential_decay_length_penalty")) {
    if (decay->size() != 2) decay->fail("a number of tokens, and a factor");
    const std::vector<JsonValue> parts = decay->items();
    rules.decay_start = static_cast<int>(parts[0].integer(0, kMaxTokens));
    rules.decay_factor = parts[1].number();
  }
  return rules;
}

json fields_of(const GenerationDefaults& defaults) {
  json fields;
  visit_defaults(defaults, [&]<class Field>(std::string_view key, const Field& field) {
    if constexpr (std::is_same_v<Field, float>) {
      fields[key] = decimal(field);
    } else {
      fields[key] = field;
    }
  });
  if (defaults.min_new_tokens > 0) fields["min_length"] = int64_t{defaults.min_new_tokens} + kStart;
  fields["early_stopping"] = defaults.early_stopping == EarlyStopping::exact
                                 ? json("never")
                                 : json(defaults.early_stopping == EarlyStopping::when_full);
  return fields;
}

}  // namespace

GenerationDefaults load_generation_defaults(const std::filesystem::path& folder, LengthsInclude lengths,
                                            std::string_view others) {
  std::string name = "generation_config.json";
  std::optional<std::string> text = read_model_file(folder, name);
  const bool own_file = text.has_value();
  if (!own_file) text = read_model_file(folder, name = "config.json");
  const bool prompt = lengths == LengthsInclude::prompt;
  GenerationDefaults defaults{.beam = 1, .length_penalty = 1};
  if (prompt) defaults.max_new_tokens = 128;
  if (!text) return defaults;
  defaults.file = model_file_name(folder, name);
  const ConfigReader object(*text, defaults.file);
  visit_defaults(defaults, [&](std::string_view key, auto& field) {
    if (const auto found = object.find(key)) read(*found, key, field);
  });
  if (object.boolean("do_sample", false)) {
    try {
      require_ranges(defaults.sampling);
    } catch (const UsageError& error) {
      throw DataError(concat(defaults.file, ": ", error.what()));
    }
  }
  defaults.eos_ids = ids_of(object.find("eos_token_id"));
  defaults.forced_eos_ids = ids_of(object.find("forced_eos_token_id"));
  const auto tokens = [&](const char* key, int counted_beside, int& field, int least = 0) {
    if (const auto found = object.find(key))
      field = static_cast<int>(std::max(found->integer(least, kMaxTokens) - counted_beside, int64_t{0}));
  };
  const int start = prompt ? 0 : kStart, end = prompt || defaults.forced_eos_ids.empty() ? 0 : 1;
  tokens("max_length", start + end, prompt ? defaults.max_length : defaults.max_new_tokens);
  tokens("max_new_tokens", end, defaults.max_new_tokens, 1);
  if (object.has("max_new_tokens")) defaults.max_length = 0;
  defaults.max_new_tokens = std::max(defaults.max_new_tokens, 1);
  tokens("min_length", start, prompt ? defaults.min_length : defaults.min_new_tokens);
  tokens("min_new_tokens", 0, defaults.min_new_tokens);
  if (const auto found = object.find("bad_words_ids")) {
    for (const JsonValue& word : found->items()) defaults.bad_words.push_back(sequence_of(word));
  }
  if (const auto found = object.find("early_stopping")) defaults.early_stopping = early_stopping_of(*found);
  defaults.suppress_tokens = ids_of(object.find("suppress_tokens"));
  defaults.rules = rules_of(object, defaults.rules);
  note_unsupported(object, defaults);
  object.ignore(kIrrelevantFields);
  object.ignore(others);
  if (own_file) object.reject_unknown_fields();
  return defaults;
}

std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults) {
  std::vector<std::vector<int32_t>> bad_words = defaults.bad_words;
  const std::vector<int32_t> pad{static_cast<int32_t>(config.pad_id)};
  if (std::ranges::count(bad_words, pad) == 0) bad_words.push_back(pad);
  // Beyond its positions, generate() of transformers fails.
  const int64_t max_length =
      std::min(int64_t{defaults.max_new_tokens} + kStart + 1, config.max_tokens().value_or(kMaxTokens));
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

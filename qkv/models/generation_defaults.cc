#include "qkv/models/generation_defaults.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::models {

using nlohmann::json;

GenerationDefaults load_generation_defaults(const std::filesystem::path& folder,
                                            const GenerationDefaults& otherwise) {
  std::filesystem::path path = folder / "generation_config.json";
  if (!std::filesystem::exists(path)) path = folder / "config.json";
  GenerationDefaults defaults = otherwise;
  if (!std::filesystem::exists(path)) return defaults;
  try {
    const json object = json::parse(read_file(path));
    if (!object.is_object())
      throw DataError(concat(path.string(), ": expected a JSON object, found ", object.type_name()));
    const auto read = [&](const char* key, auto& field) {
      const auto found = object.find(key);
      if (found != object.end() && !found->is_null()) found->get_to(field);
    };
    read("num_beams", defaults.beam);
    read("length_penalty", defaults.length_penalty);
    read("max_length", defaults.max_length);
    read("bad_words_ids", defaults.bad_words);
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
  const json object{{"num_beams", defaults.beam},        {"length_penalty", defaults.length_penalty},
                    {"max_length", defaults.max_length}, {"bad_words_ids", bad_words},
                    {"eos_token_id", config.eos_id},     {"forced_eos_token_id", config.eos_id},
                    {"pad_token_id", config.pad_id},     {"decoder_start_token_id", config.decoder_start_id}};
  return object.dump(2) + "\n";
}

}  // namespace qkv::models

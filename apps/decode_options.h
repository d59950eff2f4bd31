#pragma once
// Search options common to translate, generate and evaluate.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/field_options.h"
#include "apps/engine_options.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/pipelines/translate.h"

namespace qkv::apps {

// Unset options default to the model folder's, or the library's.
struct SearchArguments {
  GivenFields given;
  std::vector<std::string> bad_words;
  EngineArguments engine;

  // Sets what was given. Throws UsageError for forbidden texts without tokens.
  template <class Tokenizer>
  void apply(search::SearchOptions& search, const Tokenizer& tokenizer) const {
    given.apply(search);
    if (!given.has("min_new_tokens"))
      search.min_new_tokens = std::min(search.min_new_tokens, search.max_new_tokens);
    try {
      for (std::vector<int32_t>& ids : pipelines::bad_words(tokenizer, bad_words))
        search.bad_words.push_back(std::move(ids));
    } catch (const UsageError& error) {
      throw UsageError(concat("--forbid: ", error.what()));
    }
  }
};

struct DecodeArguments : SearchArguments {
  GivenFields languages;
  std::optional<std::string> shortlist;
  int64_t max_source_tokens = 0;
  bool truncate = false;
};

// Options of any search, with the model's defaults. `arguments` must live as long as the command.
void add_search_options(Command& command, SearchArguments& arguments);
// --nbest, with a help of its own.
Option* add_nbest(Command& command, SearchArguments& arguments, const std::string& help);

// --json-schema, and its text: empty without the option. Throws UsageError for a schema that is refused.
void add_json_schema_option(Command& command, std::string& file);
std::string json_schema_of(const std::string& file, const pipelines::LoadedLanguageModel& model);

// Options of translations.
void add_decode_options(Command& command, DecodeArguments& arguments);
// Throws UsageError for bad options.
pipelines::TranslateOptions translate_options(const models::TranslationModel& model,
                                              const DecodeArguments& arguments);

}  // namespace qkv::apps

#include "apps/decode_options.h"

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/pipelines/output_grammars.h"

namespace qkv::apps {

using search::SearchOptions;

void add_search_options(Command& command, SearchArguments& arguments) {
  add_field_options<SearchOptions>(command, arguments.given, {"", SearchOptions::kBeamSearch}, kModels);
  add_option(command, "--forbid", arguments.bad_words, "TEXT",
             "Words that no output may contain; may be given several times (default: none)");
  add_engine_options(command, arguments.engine);
}

Option* add_nbest(Command& command, SearchArguments& arguments, const std::string& help) {
  Option* added = nullptr;
  SearchOptions::visit_fields(SearchOptions(), [&](const OptionField& field, const auto& value) {
    if (field.group != SearchOptions::kOutputs) return;
    const auto take = [&arguments](const std::string& text) { arguments.given.set("nbest", text); };
    added = add_field_option(command, field, value, take, help);
  });
  return added;
}

void add_json_schema_option(Command& command, std::string& file) {
  add_option(command, "--json-schema", file, "FILE",
             "Write JSON that the JSON schema of a file describes; {\"type\": \"object\"}: any object "
             "(default: none)");
}

std::string json_schema_of(const std::string& file, const pipelines::LoadedLanguageModel& model) {
  if (file.empty()) return {};
  std::string schema = read_file(file);
  try {
    model.grammars->constraint(pipelines::json_schema_grammar(schema), model.tokenizer,
                               model.model->config().vocabulary);
  } catch (const UsageError& error) {
    std::string message = error.what();
    if (constexpr std::string_view kField = "json_schema: "; message.starts_with(kField))
      message.erase(0, kField.size());
    throw UsageError(concat("--json-schema ", file, ": ", message));
  }
  return schema;
}

void add_decode_options(Command& command, DecodeArguments& arguments) {
  add_search_options(command, arguments);
  add_field_options<SearchOptions>(command, arguments.given, {SearchOptions::kGnmt});
  add_field_options<pipelines::Languages>(command, arguments.languages, {""}, kModels);
  add_option(command, "--shortlist", arguments.shortlist, "FILE",
             "Restrict the output vocabulary by this lexical shortlist, see 'qkv shortlist' (default: none)");
  add_option(command, "--max-source-tokens", arguments.max_source_tokens, "TOKENS",
             "Maximum length of a line, its end token included; 0: the model's positions");
  command.add_flag("--truncate", arguments.truncate,
                   "Truncate longer lines with a warning instead of an error");
}

pipelines::TranslateOptions translate_options(const models::TranslationModel& model,
                                              const DecodeArguments& arguments) {
  pipelines::TranslateOptions options = pipelines::default_options(model);
  arguments.apply(options.search, *model.tokenizer);
  arguments.languages.apply(options.languages);
  if (arguments.shortlist)
    options.search.shortlist = pipelines::load_shortlist(*arguments.shortlist, model.config);
  options.max_source_tokens = arguments.max_source_tokens;
  options.truncate = arguments.truncate;
  return options;
}

}  // namespace qkv::apps

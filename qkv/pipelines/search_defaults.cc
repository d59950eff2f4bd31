#include "qkv/pipelines/search_defaults.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/pipelines/checks.h"
#include "qkv/search/shortlist.h"

namespace qkv::pipelines {
namespace {

void require_tokens(const std::vector<int32_t>& ids, const std::string& text) {
  if (!ids.empty()) return;
  throw UsageError(concat("bad_words: expected text of at least one token, found \"", text, "\""));
}

// `ids` of the file: none, or several with the model's own among them.
void require_end(const std::string& file, const char* field, const std::vector<int32_t>& ids, int32_t eos) {
  if (ids.empty() || std::ranges::count(ids, eos) > 0) return;
  throw DataError(concat(file, ": ", field, ": expected ", eos,
                         ", the eos_token_id of config.json, to be one of them, found ", ids.front()));
}

}  // namespace

void require_valid(const search::SearchOptions& options, const std::string& file) {
  try {
    options.validate();
  } catch (const UsageError& error) {
    throw DataError(concat(file, ": ", error.what()));
  }
}

search::SearchOptions search_defaults(const models::GenerationDefaults& defaults, int32_t eos) {
  if (!defaults.unsupported.empty()) throw DataError(defaults.unsupported);
  // No end token of config.json: one outside the vocabulary, which never comes.
  if (eos >= 0) require_end(defaults.file, "eos_token_id", defaults.eos_ids, eos);
  require_end(defaults.file, "forced_eos_token_id", defaults.forced_eos_ids, eos);
  search::SearchOptions options{.beam = defaults.beam,
                                .length_penalty = defaults.length_penalty,
                                .early_stopping = defaults.early_stopping,
                                .max_new_tokens = defaults.max_new_tokens,
                                .forced_eos = !defaults.forced_eos_ids.empty(),
                                .min_new_tokens = std::min(defaults.min_new_tokens, defaults.max_new_tokens),
                                .suppress_tokens = defaults.suppress_tokens,
                                .bad_words = defaults.bad_words,
                                .no_repeat_ngram = defaults.no_repeat_ngram,
                                .repetition_penalty = defaults.repetition_penalty,
                                .rules = defaults.rules,
                                .renormalize = defaults.renormalize,
                                .stop = defaults.eos_ids};
  std::erase(options.stop, eos);
  require_valid(options, defaults.file);
  return options;
}

search::Sampling sampling_defaults(const models::GenerationDefaults& defaults) {
  if (!defaults.unsupported_sampling.empty()) throw DataError(defaults.unsupported_sampling);
  return defaults.sampling;
}

std::vector<std::vector<int32_t>> bad_words(const text::TranslationTokenizer& tokenizer,
                                            std::span<const std::string> texts) {
  std::vector<std::vector<int32_t>> result;
  for (const std::string& text : texts) {
    require_text("bad_words", text);
    result.push_back(tokenizer.encode_target(text));
    require_tokens(result.back(), text);
  }
  return result;
}

std::vector<std::vector<int32_t>> bad_words(const text::Tokenizer& tokenizer,
                                            std::span<const std::string> texts) {
  text::EncodeOptions plain;
  plain.special_tokens = false;
  std::vector<std::vector<int32_t>> result;
  for (const std::string& text : texts) {
    require_text("bad_words", text);
    for (const std::string& spelled : {text, " " + text}) {
      std::vector<int32_t> ids = tokenizer.encode(spelled, plain).ids;
      require_tokens(ids, text);
      if (result.empty() || result.back() != ids) result.push_back(std::move(ids));
    }
  }
  return result;
}

std::shared_ptr<const search::Shortlist> load_shortlist(const std::filesystem::path& path,
                                                        const models::TransformerConfig& config) {
  auto shortlist = std::make_shared<const search::Shortlist>(search::Shortlist::load(path));
  if (shortlist->source_vocabulary() != config.source_vocabulary ||
      shortlist->target_vocabulary() != config.target_vocabulary) {
    throw DataError(concat(path.string(), ": expected a shortlist for the model's ", config.source_vocabulary,
                           " and ", config.target_vocabulary, " tokens, found one for ",
                           shortlist->source_vocabulary(), " and ", shortlist->target_vocabulary()));
  }
  return shortlist;
}

}  // namespace qkv::pipelines

#pragma once
// Search options from a model folder's files and from text.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/transformer.h"
#include "qkv/search/search.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::pipelines {

// Throws DataError, naming the file, for options that SearchOptions::validate() refuses.
void require_valid(const search::SearchOptions& options, const std::string& file);

// The search recommended by generation_config.json, for a model whose end token is `eos` (-1: none). Throws
// DataError for a field that qkv does not support, for end tokens without `eos`, and for values that
// SearchOptions::validate() refuses.
search::SearchOptions search_defaults(const models::GenerationDefaults& defaults, int32_t eos);
// The sampling distribution recommended by generation_config.json. Throws DataError for a field that qkv does
// not support.
search::Sampling sampling_defaults(const models::GenerationDefaults& defaults);

// Token ids of forbidden texts, for SearchOptions::bad_words. Throws UsageError for a text without tokens,
// and for one that is not UTF-8.
std::vector<std::vector<int32_t>> bad_words(const text::TranslationTokenizer& tokenizer,
                                            std::span<const std::string> texts);
// For a language model: each text tokenized both at the beginning of a text and after a space.
std::vector<std::vector<int32_t>> bad_words(const text::Tokenizer& tokenizer,
                                            std::span<const std::string> texts);

// A model's lexical shortlist. Throws the errors of search::Shortlist::load(), and DataError for a shortlist
// of other vocabulary sizes.
std::shared_ptr<const search::Shortlist> load_shortlist(const std::filesystem::path& path,
                                                        const models::TransformerConfig& config);

}  // namespace qkv::pipelines

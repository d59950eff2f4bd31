#pragma once
// Search options out of a folder's files and out of text.

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

// The distribution that generation_config.json recommends for sampling.
search::Sampling sampling_defaults(const models::GenerationDefaults& defaults);

// The ids of texts that shall never come, as SearchOptions::bad_words takes them. Throws UsageError for a
// text without tokens.
std::vector<std::vector<int32_t>> bad_words(const text::TranslationTokenizer& tokenizer,
                                            std::span<const std::string> texts);
// As a language model's tokenizer spells them at the beginning of a text and after a space.
std::vector<std::vector<int32_t>> bad_words(const text::Tokenizer& tokenizer,
                                            std::span<const std::string> texts);

// A lexical shortlist of a model. Throws what search::Shortlist::load() throws, and DataError for a shortlist
// of other vocabularies.
std::shared_ptr<const search::Shortlist> load_shortlist(const std::filesystem::path& path,
                                                        const models::TransformerConfig& config);

}  // namespace qkv::pipelines

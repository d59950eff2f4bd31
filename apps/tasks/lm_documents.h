#pragma once
// Text files as the tokens of a language model.

#include <filesystem>
#include <string>

#include "qkv/data/token_documents.h"
#include "qkv/pipelines/open_model.h"

namespace qkv::apps {

// Reads a text, with the model's end token after each document and its start token before it. Throws
// DataError for a model without an end token, unless the bounds are none, and for a text without two tokens.
// Tells the user of lines that were left out and of tokens outside the vocabulary.
data::TokenDocuments read_lm_documents(const std::string& file, const pipelines::LoadedLanguageModel& model,
                                       data::DocumentBounds bounds, data::OnBadLine on_bad_line);

// As in training: the adapter's setting, or else the model's, or else blank lines.
data::DocumentBounds usual_bounds(const std::filesystem::path& model,
                                  const std::filesystem::path& adapter = {});

}  // namespace qkv::apps

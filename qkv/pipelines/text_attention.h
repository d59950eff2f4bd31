#pragma once
// The attention weights of a text or sentence pair, with the tokens of their axes.

#include <string>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/capture.h"
#include "qkv/search/search.h"

namespace qkv::pipelines {

// For a model that reads one text: queries and keys are the same tokens.
struct TextAttention {
  std::vector<std::string> tokens;  // as spelled in the vocabulary
  std::vector<search::CapturedAttention> attentions;
};

// Throw DataError for a text that is invalid UTF-8 or too long, UsageError for a text without tokens.
TextAttention capture_attention(const LoadedLanguageModel& model, const std::string& text);
TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& text);

// For an encoder-decoder.
struct TextCapture {
  search::Capture capture;
  std::vector<std::string> source_tokens, target_input_tokens, target_output_tokens;  // pieces
  std::string source, target;  // the target as given, or the model's own translation
};

// An empty `target` is replaced by the model's own translation, searched with `options`. Throws DataError for
// invalid UTF-8, UsageError for a source without tokens, and the errors of search::capture().
TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const search::SearchOptions& options = {});

}  // namespace qkv::pipelines

#pragma once
// The attention weights of one text or one sentence pair, and the tokens on their axes.

#include <string>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/capture.h"
#include "qkv/search/search.h"

namespace qkv::pipelines {

// Of a model that reads one text: queries and keys are the same tokens.
struct TextAttention {
  std::vector<std::string> tokens;  // as the vocabulary spells them
  std::vector<search::CapturedAttention> attentions;
};

// Throw DataError for a text that is not UTF-8 or is too long, and UsageError for one without tokens.
TextAttention capture_attention(const LoadedLanguageModel& model, const std::string& text);
TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& text);

// Of an encoder-decoder.
struct TextCapture {
  search::Capture capture;
  std::vector<std::string> source_tokens, target_input_tokens, target_output_tokens;  // pieces
  std::string source, target;  // the target as given, or the model's own translation
};

// `target` empty: the model's own translation, found with `options`. Throws DataError for text that is not
// UTF-8, UsageError for a source without tokens, and what search::capture() throws.
TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const search::SearchOptions& options = {});

}  // namespace qkv::pipelines

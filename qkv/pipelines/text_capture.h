#pragma once
// The attention weights of one sentence pair, and the tokens to write on their axes.

#include <string>
#include <vector>

#include "qkv/models/translation_model.h"
#include "qkv/search/capture.h"
#include "qkv/search/search.h"

namespace qkv::pipelines {

// search::Capture of text, with its tokens.
struct TextCapture {
  search::Capture capture;
  std::vector<std::string> source_tokens, target_input_tokens, target_output_tokens;  // pieces
  std::string source, target;  // the target as given, or what the model says
};

// `target` empty: the model's own translation, found with `options`. Throws DataError for text that is not
// UTF-8, UsageError for a source without tokens, and what capture() throws.
TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const search::SearchOptions& options = {});

}  // namespace qkv::pipelines

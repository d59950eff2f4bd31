#pragma once
// The attention weights of a text or sentence pair, with the tokens of their axes.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/capture.h"
#include "qkv/search/search.h"

namespace qkv::pipelines {

// For a model that reads one text: queries and keys are the same tokens.
struct TextAttention {
  std::vector<std::string> tokens;    // as spelled in the vocabulary
  std::vector<uint8_t> special = {};  // 1: added by the tokenizer, such as [CLS]; empty: none is
  // The first token of the second text, if the model read a pair.
  std::optional<int64_t> second_text = {};
  std::vector<search::CapturedAttention> attentions;
};

// Receives each attention as soon as it is computed, with the tokens. Weights that it does not keep are
// freed, so that those of long texts need not be in memory together.
using AttentionSink = std::function<void(const TextAttention& text, search::CapturedAttention attention)>;

// Throw DataError for a text that is invalid UTF-8 or too long, UsageError for a text without tokens, and
// what the sink throws. With a sink, the result has no attentions.
TextAttention capture_attention(const LoadedLanguageModel& model, const std::string& text,
                                const AttentionSink& sink = {});
TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& text,
                                const AttentionSink& sink = {});
// Of two texts that the model reads as one input.
TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& first,
                                const std::string& second, const AttentionSink& sink = {});

// For an encoder-decoder.
struct TextCapture {
  search::Capture capture;
  std::vector<std::string> source_tokens, target_input_tokens, target_output_tokens;  // pieces
  std::vector<uint8_t> source_special, target_special;                                // 1: the end token
  std::vector<int32_t> alignment;  // of each target token, as search::align()
  std::string source, target;      // the target as given, or the model's own translation
};

// An empty `target` is replaced by the model's own translation, searched with `options`. Throws DataError for
// invalid UTF-8, UsageError for a source without tokens, and the errors of search::capture().
TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const search::SearchOptions& options = {});

}  // namespace qkv::pipelines

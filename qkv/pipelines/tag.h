#pragma once
// Token classification.

#include "qkv/pipelines/results.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

// One token or word of a text, and its label.
struct TaggedToken {
  size_t begin = 0, end = 0;  // byte range in the text
  std::string text;           // the text of that range
  LabelProbability label;     // the most likely label
};

struct TaggedText {
  std::vector<TaggedToken> tokens;  // without special tokens
  bool words = false;               // they are words
  std::string error = {};           // why there is no result; empty on success
};

// The words of a text that has been tagged, between spaces and tabs. A word's label is that of its first
// token, as in training; a word without a token is left out.
TaggedText words_of(std::string_view text, const TaggedText& tagged);

struct TagRequest : EncoderRequest {
  std::string text;
};

class TokenTagger : public TextEncoderPipeline {
 public:
  // Throws DataError for a model without a token classification head, and the errors of open_text_encoder().
  explicit TokenTagger(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit TokenTagger(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  TagRequest prepare(std::string_view text) const;
  // hidden: [tokens, d_model], from encode().
  TaggedText finish(const TagRequest& request, const Tensor& hidden) const;

  std::vector<TaggedText> operator()(std::span<const std::string> texts,
                                     int64_t batch_tokens = kEncoderBatchTokens) const;
};

}  // namespace qkv::pipelines

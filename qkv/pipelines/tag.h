#pragma once
// Labels of the tokens of texts.

#include "qkv/pipelines/results.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

// One token of a text, and its label.
struct TaggedToken {
  size_t begin = 0, end = 0;  // its bytes in the text
  std::string text;           // those bytes
  LabelProbability label;     // the most likely
};

struct TaggedText {
  std::vector<TaggedToken> tokens;  // without those that the tokenizer puts around the text
  std::string error;                // why there is no result; empty: there is one
};

struct TagRequest : EncoderRequest {
  std::string text;
};

class TokenTagger : public TextEncoderPipeline {
 public:
  // Throws UsageError for a model that does not label tokens, and what open_text_encoder() throws.
  explicit TokenTagger(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit TokenTagger(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  TagRequest prepare(std::string_view text) const;
  // hidden: [tokens, d_model], as encode() gives them.
  TaggedText finish(const TagRequest& request, const Tensor& hidden) const;

  std::vector<TaggedText> operator()(std::span<const std::string> texts,
                                     int64_t batch_tokens = kEncoderBatchTokens) const;
};

}  // namespace qkv::pipelines

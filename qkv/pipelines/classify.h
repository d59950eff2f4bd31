#pragma once
// Text classification.

#include "qkv/pipelines/results.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

struct ClassifyOptions {
  bool pairs = false;  // a tab separates two texts that are classified as a pair
};

class TextClassifier : public TextEncoderPipeline {
 public:
  // Throws DataError for a model without a text classification head, and the errors of open_text_encoder().
  explicit TextClassifier(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit TextClassifier(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  EncoderRequest prepare(std::string_view text, const ClassifyOptions& options = {}) const;
  EncoderRequest prepare(std::string_view first, std::string_view second,
                         const text::EncodeOptions& options = {}) const;
  // hidden: [tokens, d_model], from encode().
  Classified finish(const EncoderRequest& request, const Tensor& hidden) const;

  std::vector<Classified> operator()(std::span<const std::string> texts, const ClassifyOptions& options = {},
                                     int64_t batch_tokens = kEncoderBatchTokens) const;

 protected:
  // Of the labels, from hidden states: [1, labels].
  Tensor probabilities_of(const Tensor& hidden, models::ProblemType problem) const;

 private:
  // Of a causal model: as transformers, which classifies the last token that is no padding.
  EncoderRequest without_padding(EncoderRequest request) const;
};

}  // namespace qkv::pipelines

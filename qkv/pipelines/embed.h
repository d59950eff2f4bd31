#pragma once
// Text embeddings.

#include <memory>
#include <optional>
#include <vector>

#include "qkv/pipelines/results.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

class DenseLayer;  // qkv/pipelines/sentence_transformers/dense.h

struct TextEmbedOptions {
  EmbedOptions vector = {};
  // Maximum tokens of a text, special tokens included; the rest is cut off. Nothing: no cut, and a text
  // longer than the model's positions is an error.
  std::optional<int64_t> max_length = {};
  std::string prompt = {};                                    // prepended to each text
  std::shared_ptr<const std::vector<DenseLayer>> dense = {};  // after the pooling; null: none

  // Of a model's vector.
  int64_t width(const models::TextEncoder& model) const;
};

struct EmbedRequest : EncoderRequest {
  EmbedOptions options;
  std::shared_ptr<const std::vector<DenseLayer>> dense;
};

class TextEmbedder : public TextEncoderPipeline {
 public:
  using TextEncoderPipeline::TextEncoderPipeline;

  // The options that sentence-transformers files in the model's folder specify (modules.json and the files it
  // names); without such files, the defaults of TextEmbedOptions. Throws DataError naming the file and the
  // unsupported module or field.
  TextEmbedOptions default_options() const;

  // Throws UsageError for Pooling::pooler if the model has no pooler, and for dimensions beyond its width.
  EmbedRequest prepare(std::string_view text, const TextEmbedOptions& options = {}) const;
  // Token ids, special tokens included: no prompt is prepended, and nothing is cut off.
  EmbedRequest prepare(std::span<const int32_t> ids, const TextEmbedOptions& options = {}) const;
  // hidden: [tokens, d_model], from encode().
  Embedded finish(const EmbedRequest& request, const Tensor& hidden) const;

  std::vector<Embedded> operator()(std::span<const std::string> texts, const TextEmbedOptions& options = {},
                                   int64_t batch_tokens = kEncoderBatchTokens) const;
};

}  // namespace qkv::pipelines

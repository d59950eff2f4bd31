#pragma once
// Texts as vectors.

#include <optional>

#include "qkv/pipelines/results.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

struct TextEmbedOptions {
  EmbedOptions vector = {};
  // Tokens of a text that are read, those that the tokenizer puts around it included; the rest is left out.
  // Nothing: all, and a text longer than the model's positions is an error.
  std::optional<int64_t> max_length = {};
  std::string prompt = {};  // put before each text
};

struct EmbedRequest : EncoderRequest {
  EmbedOptions options;
};

class TextEmbedder : public TextEncoderPipeline {
 public:
  using TextEncoderPipeline::TextEncoderPipeline;

  // The options of the sentence-transformers files in the model's folder (modules.json and the files that it
  // names); without such files, those of TextEmbedOptions. Throws DataError naming the file and the module or
  // field that is not supported.
  TextEmbedOptions default_options() const;

  // Throws UsageError for Pooling::pooler with a model that has none.
  EmbedRequest prepare(std::string_view text, const TextEmbedOptions& options = {}) const;
  // hidden: [tokens, d_model], as encode() gives them.
  Embedded finish(const EmbedRequest& request, const Tensor& hidden) const;

  std::vector<Embedded> operator()(std::span<const std::string> texts, const TextEmbedOptions& options = {},
                                   int64_t batch_tokens = kEncoderBatchTokens) const;
};

}  // namespace qkv::pipelines

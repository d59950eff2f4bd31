#pragma once
// Relevance of texts to a query, by a cross-encoder (Nogueira and Cho 2019): a text classifier with one label
// reads each pair.

#include <optional>

#include "qkv/pipelines/classify.h"

namespace qkv::pipelines {

struct RerankOptions {
  bool raw = false;  // the logit, not its sigmoid
  // Maximum tokens of a pair, special tokens included; the longer text is cut. Nothing: no cut, and a pair
  // longer than the model's positions is an error.
  std::optional<int64_t> max_length = {};
};

struct RerankRequest : EncoderRequest {
  bool raw = false;
};

struct Reranked {
  float score = 0;
  std::string error;
};

class Reranker : public TextClassifier {
 public:
  // Throws DataError for a model that has not one label, and the errors of TextClassifier.
  explicit Reranker(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit Reranker(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  // Those of sentence-transformers' CrossEncoder: a sigmoid, unless config.json has another activation_fn,
  // and the length of the tokenizer or of the model. Throws DataError for an unsupported activation_fn.
  RerankOptions default_options() const;

  RerankRequest prepare(std::string_view query, std::string_view text, const RerankOptions& options) const;
  // hidden: [tokens, d_model], from encode().
  Reranked finish(const RerankRequest& request, const Tensor& hidden) const;

  std::vector<Reranked> operator()(const std::string& query, std::span<const std::string> texts,
                                   const RerankOptions& options,
                                   int64_t batch_tokens = kEncoderBatchTokens) const;
};

// Indices of the results without an error, in descending order of scores; ties in ascending order.
std::vector<size_t> by_score(std::span<const Reranked> results);

}  // namespace qkv::pipelines

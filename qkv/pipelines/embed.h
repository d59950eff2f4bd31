#pragma once
// Text embeddings: vectors, and sparse weights of vocabulary tokens.

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

// Sparse embeddings: a weight for each token of the vocabulary, most of them 0, which an inverted index can
// search (Formal et al. 2021, "SPLADE" and "SPLADE v2").
//
// How the weight w_j of token j follows from s_ij = log(1 + max(0, z_ij)), where z_ij is its masked-language
// logit at position i of a text, special tokens included.
enum class SparsePooling : uint8_t {
  max,  // w_j = max_i s_ij (SPLADE v2 and later)
  sum,  // w_j = sum_i s_ij (SPLADE)
};

struct SparseEmbedOptions {
  SparsePooling pooling = SparsePooling::max;
  bool log_twice = false;                  // log(1 + s_ij) in place of s_ij (Shen et al. 2025)
  std::optional<int64_t> top = {};         // the largest weights only; nothing: all that are not 0
  std::optional<int64_t> max_length = {};  // as TextEmbedOptions::max_length
  std::string prompt = {};                 // prepended to each text
};

struct SparseEmbedRequest : EncoderRequest {
  SparseEmbedOptions options;
};

struct TokenWeight {
  int32_t id = 0;
  std::string token;  // as spelled in the vocabulary; empty for an id that the tokenizer lacks
  float weight = 0;   // above 0
};

struct SparseEmbedded {
  std::vector<TokenWeight> weights;  // largest first, equal ones by id
  std::string error;
};

class SparseEmbedder : public TextEncoderPipeline {
 public:
  // Throws DataError for a model without a masked-language head, and the errors of open_text_encoder().
  explicit SparseEmbedder(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit SparseEmbedder(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  // Those of the folder's sentence-transformers files; without such files, those of SparseEmbedOptions.
  // Throws DataError naming the file and the unsupported module or field.
  SparseEmbedOptions default_options() const;

  // Throws UsageError for a `top` below 1.
  SparseEmbedRequest prepare(std::string_view text, const SparseEmbedOptions& options = {}) const;
  // hidden: [tokens, d_model], from encode(). Holds the logits of some tokens at a time. Throws NumericError
  // for logits that are not finite.
  SparseEmbedded finish(const SparseEmbedRequest& request, const Tensor& hidden) const;

  std::vector<SparseEmbedded> operator()(std::span<const std::string> texts,
                                         const SparseEmbedOptions& options = {},
                                         int64_t batch_tokens = kEncoderBatchTokens) const;
};

}  // namespace qkv::pipelines

#pragma once
// Searching with a Transformer, or with several.

#include <memory>

#include "qkv/decode/search.h"
#include "qkv/models/transformer.h"

namespace qkv::decode {

// A batch of sources in a Transformer, with its cache of keys and values. The model must outlive it.
class TransformerStepper : public Stepper {
 public:
  // source: ids i32 [tokens]. The encoder runs here.
  TransformerStepper(const models::Transformer& model, const Ragged& source);
  Tensor step(const Tensor& ids) override;
  void reorder(std::span<const int32_t> parents, const Offsets& rows_of) override;

 private:
  const models::Transformer& model_;
  nn::DecoderState state_;
};

// Several models that speak together: a token's probability is the mean of theirs.
class EnsembleStepper : public Stepper {
 public:
  // At least one; all have the same vocabulary.
  explicit EnsembleStepper(std::vector<std::unique_ptr<Stepper>> steppers);
  Tensor step(const Tensor& ids) override;  // log-probabilities
  void reorder(std::span<const int32_t> parents, const Offsets& rows_of) override;

 private:
  std::vector<std::unique_ptr<Stepper>> steppers_;
};

// One model, or an ensemble of models with the same vocabulary and special ids.
using ModelList = std::vector<const models::Transformer*>;

// The outputs for each request, in their order. Requests are batched by the length of their sources, at most
// `batch_tokens` source tokens at a time; a result does not depend on that, nor on the other requests.
// Padding is never chosen, and no output is longer than the models have positions for. Throws UsageError for
// bad options, a bad prefix, a source without tokens and models with other special ids or vocabulary sizes
// than the first, DataError for an id outside the vocabulary, NumericError.
std::vector<NBest> search(const ModelList& models, std::span<const Request> requests,
                          const SearchOptions& options, int64_t batch_tokens = 1024);

// The same for sources alone; source i has the key i.
std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, int64_t batch_tokens = 1024);

// The options as these models can follow them: without padding, within their positions.
SearchOptions fitting(const ModelList& models, SearchOptions options);

}  // namespace qkv::decode

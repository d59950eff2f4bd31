#pragma once
// Searching with a Transformer, or with several.

#include <memory>
#include <optional>

#include "qkv/models/transformer.h"
#include "qkv/search/engine.h"

namespace qkv::search {

// Sentences in the middle of a Transformer, with their caches of keys and values. The model must outlive it.
class TransformerStepModel : public StepModel {
 public:
  explicit TransformerStepModel(const models::Transformer& model);

  int64_t vocabulary() const override { return model_.config().target_vocabulary; }
  // Throws UsageError for a source without tokens, DataError for an id outside the vocabulary and for more
  // tokens than there are learned positions.
  void check(Ids source) const override;
  void admit(std::span<const Ids> sources) override;  // the encoder runs here
  Tensor step(const Tensor& ids) override;
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) override;
  bool restrict_logits(Ids ids) override;
  bool capture_cross_attention(bool on) override;
  std::span<const std::vector<float>> source_weights() const override { return state_.source_weights; }

 private:
  const models::Transformer& model_;
  nn::DecoderState state_;
  std::optional<LinearWeights> restricted_;  // rows of the output projection
};

// Several models that speak together: a token's probability is the mean of theirs.
class EnsembleStepModel : public StepModel {
 public:
  // At least one; all have the same vocabulary.
  explicit EnsembleStepModel(std::vector<std::unique_ptr<StepModel>> steppers);

  int64_t vocabulary() const override { return steppers_.front()->vocabulary(); }
  void check(Ids source) const override;
  void admit(std::span<const Ids> sources) override;
  Tensor step(const Tensor& ids) override;  // log-probabilities
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) override;
  bool capture_cross_attention(bool on) override;  // the mean of theirs
  std::span<const std::vector<float>> source_weights() const override { return source_weights_; }

 private:
  void find_source_weights();

  std::vector<std::unique_ptr<StepModel>> steppers_;
  std::vector<std::vector<float>> source_weights_;
};

// One model, or an ensemble of models with the same vocabulary and special ids.
using ModelList = std::vector<const models::Transformer*>;

// What an Engine needs to decode with models. Throws UsageError for models with other special ids or
// vocabulary sizes than the first, and for none.
std::unique_ptr<StepModel> make_step_model(const ModelList& models);
SpecialIds special_ids(const ModelList& models);
// The options as these models can follow them: without padding, within their positions.
SearchOptions fitting(const ModelList& models, SearchOptions options);

// The outputs for each request, in their order. About `batch_tokens` source tokens are decoded side by side;
// a result does not depend on that, nor on the other requests. Padding is never chosen, and no output is
// longer than the models have positions for. Throws UsageError for bad options and for models that
// make_step_model() refuses; what is wrong with one request is in its result.
std::vector<Decoded> search_each(const ModelList& models, std::span<const Request> requests,
                                 const SearchOptions& options, int64_t batch_tokens = 1024);

// The same, where what is wrong with a request is thrown.
std::vector<NBest> search(const ModelList& models, std::span<const Request> requests,
                          const SearchOptions& options, int64_t batch_tokens = 1024);

// The same for sources alone; source i has the key i.
std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, int64_t batch_tokens = 1024);

}  // namespace qkv::search

#pragma once
// A language model as a step model.

#include <memory>
#include <span>

#include "qkv/models/language_model.h"
#include "qkv/nn/attention/prefix_cache.h"
#include "qkv/search/step_model.h"

namespace qkv::search {

// Holds the KV caches of its requests, whose sources are prompts.
class LanguageStepModel : public StepModel {
 public:
  explicit LanguageStepModel(std::shared_ptr<const models::LanguageModel> model,
                             const StepModelOptions& options = {});

  int64_t vocabulary() const override { return model_->config().vocabulary; }
  // Throws UsageError for an empty prompt or one longer than the model's positions, and unless there is a row
  // for each id below 0, none of them the last; DataError for an id outside the vocabulary.
  void check(Ids prompt, const EmbeddedRows& rows) const override;
  int64_t cache_bytes(const CacheNeed& need) const override;
  void keep_prefixes(int64_t bytes) override { prefixes_.limit(bytes); }
  int64_t kept_bytes() const override { return prefixes_.bytes(); }
  // read() consumes all tokens of a prompt but the last, which is the input of the first step. Rows that
  // attend to each other are read together, even beyond the chunk.
  std::unique_ptr<Source> open(Ids prompt, const EmbeddedRows& rows) override;
  void read(std::span<const Chunk> chunks) override;
  void admit(std::span<const std::unique_ptr<Source>> prompts) override;
  Tensor step(const Tensor& ids) override { return model_->step(ids, state_); }
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) override {
    state_.reorder(parents, hypothesis_offsets);
  }

 private:
  std::shared_ptr<const models::LanguageModel> model_;
  StepModelOptions options_;
  nn::PrefixCache prefixes_;
  nn::DecoderState state_;
};

}  // namespace qkv::search

#pragma once
// An encoder-decoder Transformer as a step model.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"
#include "qkv/search/step_model.h"

namespace qkv::search {

// Holds the KV caches of its requests. A source of tokens is encoded when it is admitted; one of audio comes
// encoded, as rows.
class TransformerStepModel : public StepModel {
 public:
  explicit TransformerStepModel(std::shared_ptr<const models::Transformer> model,
                                const StepModelOptions& options = {});

  int64_t vocabulary() const override { return model_->config().target_vocabulary; }
  // Throws UsageError for an empty source, and for rows that are not the encoder's result of audio; DataError
  // for an id outside the vocabulary or a source longer than the learned positions.
  void check(Ids source, const EmbeddedRows& rows) const override;
  std::unique_ptr<Source> open(Ids source, const EmbeddedRows& rows) override {
    return std::make_unique<Source>(source, rows);
  }
  int64_t cache_bytes(const CacheNeed& need) const override;
  void admit(std::span<const std::unique_ptr<Source>> sources) override;
  Tensor step(const Tensor& ids) override;
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) override;
  bool restrict_logits(Ids ids) override;
  bool has_cross_attention() const override { return true; }
  void capture_cross_attention(bool on) override;
  std::span<const std::vector<float>> source_weights() const override { return state_.source_weights; }

 private:
  nn::Memory encoded(std::span<const std::unique_ptr<Source>> sources) const;

  std::shared_ptr<const models::Transformer> model_;
  StepModelOptions options_;
  nn::DecoderState state_;
  std::optional<nn::Logits> restricted_;
};

}  // namespace qkv::search

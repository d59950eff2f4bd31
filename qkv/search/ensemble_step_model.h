#pragma once
// An ensemble: several models that decode together.

#include <memory>
#include <span>
#include <vector>

#include "qkv/search/step_model.h"

namespace qkv::search {

// A token's probability is the mean of the models' probabilities.
class EnsembleStepModel : public StepModel {
 public:
  // Throws UsageError for an empty list and for models with different vocabularies.
  explicit EnsembleStepModel(std::vector<std::shared_ptr<StepModel>> models);

  int64_t vocabulary() const override { return models_.front()->vocabulary(); }
  void check(Ids source, const EmbeddedRows& rows) const override;
  int64_t cache_bytes(const CacheNeed& need) const override;
  std::unique_ptr<Source> open(Ids source, const EmbeddedRows& rows) override;
  void read(std::span<const Chunk> chunks) override;
  void admit(std::span<const std::unique_ptr<Source>> sources) override;
  Tensor step(const Tensor& ids) override;  // log-probabilities
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) override;
  bool has_cross_attention() const override;
  void capture_cross_attention(bool on) override;
  // The mean over the models.
  std::span<const std::vector<float>> source_weights() const override { return source_weights_; }

 private:
  void remove_last(StepModel& model, size_t requests) const;
  void find_source_weights();

  std::vector<std::shared_ptr<StepModel>> models_;
  std::vector<int32_t> rows_;  // of each request
  std::vector<std::vector<float>> source_weights_;
};

}  // namespace qkv::search

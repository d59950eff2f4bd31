#pragma once
// Training of a classifier, of texts (`classify`) or of words (`tag`): cross-entropy, or the squared error of
// predicted numbers.

#include <optional>
#include <vector>

#include "qkv/train/task.h"
#include "qkv/train/tasks/labels/encoder_task.h"
#include "qkv/train/tasks/labels/label_scores.h"

namespace qkv::train {

// Owns the validation data.
class LabelTask : public EncoderTask {
 public:
  struct Inputs {
    EncoderStart encoder;  // config: with the labels
    LabelOptions options;
    LabelRows train;
    std::optional<LabelRows> valid = {};
    std::vector<Field> fields = {};  // settings of encoder and data
  };
  // Throws UsageError for invalid options or an invalid configuration.
  explicit LabelTask(Inputs inputs);

  TaskInfo info() const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  std::vector<Metric> metrics() const override { return label_metrics(model_.config()); }
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;

 private:
  void initialise_randomly(uint64_t seed) override;
  std::vector<Field> data_fields() const override;

  std::optional<LabelRows> valid_;
};

}  // namespace qkv::train

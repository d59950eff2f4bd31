#pragma once
// Training of an encoder with a classifier, of texts (`classify`) or of words (`tag`): cross-entropy, or the
// squared error of predicted numbers.

#include <optional>
#include <string>
#include <vector>

#include "qkv/train/fields.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/labels/encoder_start.h"
#include "qkv/train/tasks/labels/label_scores.h"
#include "qkv/train/tasks/model_task.h"

namespace qkv::train {

struct LabelOptions {
  // Tokens per batch. 0: 32 times the mean length of a training text.
  int64_t batch_tokens = 0;
  int64_t max_length = 0;     // tokens; longer texts are cut. 0: the model's limit
  float label_smoothing = 0;  // of the cross-entropy (Szegedy et al. 2016)
  // Factor of the learning rate from each layer to the one below: with n layers, the head has the factor 1,
  // layer i (from 0) layer_decay^(n - i), the embeddings layer_decay^(n + 1) (Clark et al. 2020, table 6).
  float layer_decay = 1;
  // The embeddings and this many layers above them stay as they are, and get no gradient. 0: none, not even
  // the embeddings.
  int64_t frozen_layers = 0;

  // `layers`: of the encoder. Throws UsageError naming the field, what was expected and what was found.
  void validate(int64_t layers) const;
};

void list_settings(Settings& all, LabelOptions& options);

// Owns model, tokenizer and data.
class LabelTask : public ModelTask<models::TextEncoder> {
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
  std::vector<optim::ParameterGroup> parameter_groups() const override;
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  std::vector<Metric> metrics() const override { return label_metrics(model_.config()); }
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;
  void begin(const std::filesystem::path& folder) const override {
    inputs_.encoder.begin(folder, inputs_.options.max_length);
  }
  void export_model(const std::filesystem::path& folder) const override;

  // Pooler and classifier.
  bool is_head(const std::string& parameter) const override;

 private:
  const StartFolder* start_folder() const override {
    return inputs_.encoder.start ? &*inputs_.encoder.start : nullptr;
  }
  void initialise_randomly(uint64_t seed) override;
  std::vector<Field> data_fields() const override;
  std::string adapter_type() const override;

  // Distance from the head, in layers: 0 for the head's own parameters.
  int64_t depth(const std::string& name) const;
  bool is_frozen(const std::string& name) const;

  Inputs inputs_;
  int64_t batch_tokens_;
};

}  // namespace qkv::train

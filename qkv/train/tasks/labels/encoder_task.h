#pragma once
// Training of an encoder with a classifier: what the tasks of texts, words and answers share.

#include <string>
#include <vector>

#include "qkv/train/fields.h"
#include "qkv/train/tasks/labels/encoder_start.h"
#include "qkv/train/tasks/labels/label_rows.h"
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

// Owns model, tokenizer and training data, whose rows are its batches (LabelBatch).
class EncoderTask : public ModelTask<models::TextEncoder> {
 public:
  std::vector<optim::ParameterGroup> parameter_groups() const override;
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override;
  void begin(const std::filesystem::path& folder) const override {
    encoder_.begin(folder, options_.max_length);
  }
  void export_model(const std::filesystem::path& folder) const override;

  // Pooler and classifier.
  bool is_head(const std::string& parameter) const override;

 protected:
  // encoder.config: with the head. `settings`: those of encoder and data. Throws UsageError for invalid
  // options or an invalid configuration.
  EncoderTask(EncoderStart encoder, const LabelOptions& options, LabelRows train,
              std::vector<Field> settings);

  // Of the sum over a batch's labels.
  static BatchLoss mean_loss(const Variable& sum, const Batch& batch, const BatchSize& step);

  const LabelOptions& options() const { return options_; }
  const EncoderStart& encoder() const { return encoder_; }
  const LabelRows& train() const { return train_; }
  int64_t evaluation_batch_tokens() const;

 private:
  const StartFolder* start_folder() const override { return encoder_.start ? &*encoder_.start : nullptr; }
  std::string adapter_type() const override;

  // Distance from the head, in layers: 0 for the head's own parameters.
  int64_t depth(const std::string& name) const;
  bool is_frozen(const std::string& name) const;

  EncoderStart encoder_;
  LabelOptions options_;
  LabelRows train_;
  int64_t batch_tokens_;
};

}  // namespace qkv::train

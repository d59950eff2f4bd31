#pragma once
// Training of a model that answers questions by spans of texts (Devlin et al. 2019, section 4.2): the
// cross-entropy of the answer's first token among those of its window, and that of its last one.

#include <optional>
#include <vector>

#include "qkv/train/task.h"
#include "qkv/train/tasks/answers/answer_rows.h"
#include "qkv/train/tasks/labels/encoder_task.h"

namespace qkv::train {

struct AnswerSettings {
  int64_t shared = 128;            // tokens of a text in a window and the next one
  int64_t max_answer_tokens = 30;  // of answers in validation
};

void list_settings(Settings& all, AnswerSettings& settings);

// The sum over windows and both columns of -log softmax(logits of the window's tokens)[label]. logits
// [tokens, 2]; labels i32 [windows * 2], as in AnswerRows. -> [1]
Variable span_cross_entropy(const Variable& logits, const Offsets& offsets, std::span<const int32_t> labels,
                            float label_smoothing = 0);

// Owns the validation data.
class AnswerTask : public EncoderTask {
 public:
  struct Inputs {
    EncoderStart encoder;  // config: with the head
    LabelOptions options;
    AnswerSettings settings;
    LabelRows train;
    struct Validation {
      data::Questions questions;
      AnswerRows rows;
    };
    std::optional<Validation> valid = {};
    std::vector<Field> fields = {};  // settings of encoder and data
  };
  // Throws UsageError for invalid options or an invalid configuration.
  explicit AnswerTask(Inputs inputs);

  TaskInfo info() const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  std::vector<Metric> metrics() const override { return {{.name = "f1"}, {.name = "exact_match"}}; }
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;

 private:
  std::vector<Field> data_fields() const override;

  AnswerSettings settings_;
  std::optional<Inputs::Validation> valid_;
};

}  // namespace qkv::train

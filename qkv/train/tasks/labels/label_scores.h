#pragma once
// Predictions of a model with a classifier, of texts or of words, and their metrics.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/data/token_rows.h"
#include "qkv/metrics/classification.h"
#include "qkv/models/text_encoder.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/labels/label_rows.h"

namespace qkv::train {

// The input of the model, and its labels.
struct LabelBatch : Batch {
  data::TokenRows texts;
  std::vector<int32_t> types;   // of the tokens
  std::vector<int32_t> labels;  // of the texts, or of the tokens
  std::vector<float> values;    // of the texts: the numbers to predict
};
// The rows with these indices, in order.
std::unique_ptr<LabelBatch> label_batch(const LabelRows& rows, std::span<const int64_t> items);

// The hidden states of a batch.
Variable hidden_states(const models::TextEncoder& model, const LabelBatch& batch,
                       nn::ForwardContext& context);

struct LabelPredictions {
  // In the order of the rows: the most likely label of each text, or of each labelled token.
  std::vector<int32_t> truths, predicted;
  // Regression: the numbers.
  std::vector<double> true_values, values;
  double loss_sum = 0;  // cross-entropy (natural logarithm), or squared errors

  double loss() const;  // the mean
};

// Runs the model without dropout. Nothing if the request's stop was set before the end. Throws UsageError for
// a model of independent labels (multi_label).
std::optional<LabelPredictions> predict(const models::TextEncoder& model, const LabelRows& rows,
                                        int64_t batch_tokens, const EvaluationRequest& request = {});

// The rows' unreached words count as wrong.
metrics::ConfusionMatrix confusion_matrix(const LabelPredictions& predictions, const LabelRows& rows,
                                          int64_t classes);

// The metrics of a model's task, the one that selects the best weights first:
//   texts       accuracy, macro_f1, matthews; with two labels also f1, of the second
//   words       accuracy, macro_f1
//   regression  spearman, pearson
std::vector<Metric> label_metrics(const models::TextEncoderConfig& config);
std::map<std::string, double> label_scores(const models::TextEncoderConfig& config,
                                           const LabelPredictions& predictions, const LabelRows& rows);

}  // namespace qkv::train

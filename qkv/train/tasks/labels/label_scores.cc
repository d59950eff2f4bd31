#include "qkv/train/tasks/labels/label_scores.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "qkv/base/error.h"
#include "qkv/train/ranks/division.h"

namespace qkv::train {
namespace {

using models::ClassificationTarget;
using models::ProblemType;

bool is_regression(const models::TextEncoderConfig& config) {
  return config.labelled == ClassificationTarget::texts && config.problem == ProblemType::regression;
}

// The index of the largest logit (the first of equals) and -log softmax(logits)[label].
struct Scored {
  int32_t largest = 0;
  double loss = 0;
};

Scored scored(std::span<const float> logits, int32_t label) {
  size_t best = 0;
  for (size_t c = 1; c < logits.size(); ++c) {
    if (logits[c] > logits[best]) best = c;
  }
  double sum = 0;
  const double most{logits[best]};
  for (const float x : logits) sum += std::exp(double{x} - most);
  return {static_cast<int32_t>(best), std::log(sum) + most - double{logits[static_cast<size_t>(label)]}};
}

}  // namespace

double LabelPredictions::loss() const {
  return loss_sum / static_cast<double>(std::max<size_t>(truths.size() + values.size(), 1));
}

std::unique_ptr<LabelBatch> label_batch(const LabelRows& rows, std::span<const int64_t> items) {
  auto batch = std::make_unique<LabelBatch>();
  for (const int64_t item : items) {
    const LabelRow& row = rows.items[static_cast<size_t>(item)];
    batch->texts.append(row.ids);
    batch->texts.end_sequence();
    batch->types.insert(batch->types.end(), row.types.begin(), row.types.end());
    batch->labels.insert(batch->labels.end(), row.labels.begin(), row.labels.end());
    if (row.labels.empty()) batch->values.push_back(row.value);
  }
  const int64_t without = std::ranges::count(batch->labels, kNoLabel);
  batch->size = {.items = std::ssize(items),
                 .units = batch->texts.tokens(),
                 .labels = std::ssize(batch->labels) + std::ssize(batch->values) - without};
  return batch;
}

Variable hidden_states(const models::TextEncoder& model, const LabelBatch& batch,
                       nn::ForwardContext& context) {
  const bool typed = model.config().embedding.token_types > 1;
  return model(batch.texts.ragged(), context,
               typed ? Tensor::from(batch.types, {batch.texts.tokens()}) : Tensor());
}

std::optional<LabelPredictions> predict(const models::TextEncoder& model, const LabelRows& rows,
                                        int64_t batch_tokens, const EvaluationRequest& request) {
  const models::TextEncoderConfig& config = model.config();
  if (config.labelled == ClassificationTarget::texts && config.problem == ProblemType::multi_label) {
    throw UsageError("evaluation: expected a model with one label per text, found one of independent labels");
  }
  const bool regression = is_regression(config), texts = config.labelled == ClassificationTarget::texts;
  const std::vector<data::Batch> batches = data::sequential_batches(rows.costs(), batch_tokens);
  // Of each row, its loss, and the number or the most likely labels.
  const auto score = [&](int64_t number) {
    const std::vector<int64_t>& items = batches[static_cast<size_t>(number)].items;
    const auto batch = label_batch(rows, items);
    const Offsets offsets = batch->texts.ragged().offsets;
    nn::ForwardContext context;
    const Tensor logits =
        to_host(model.classifier_logits(hidden_states(model, *batch, context), offsets).value());
    const auto row_of = [&](int64_t row) {
      return std::span(logits.data() + row * logits.cols(), static_cast<size_t>(logits.cols()));
    };
    std::vector<double> result;
    for (size_t k = 0; k < items.size(); ++k) {
      const auto index = static_cast<int64_t>(k);
      const LabelRow& row = rows.items[static_cast<size_t>(items[k])];
      const size_t loss = result.size();
      result.push_back(0);
      if (regression) {
        result.push_back(double{row_of(index).front()});
        const double difference = result.back() - double{row.value};
        result[loss] = difference * difference;
        continue;
      }
      for (size_t place = 0; place < row.labels.size(); ++place) {
        if (row.labels[place] == kNoLabel) continue;
        const int64_t at = texts ? index : offsets.begin(index) + static_cast<int64_t>(place);
        const Scored one = scored(row_of(at), row.labels[place]);
        result.push_back(one.largest);
        result[loss] += one.loss;
      }
    }
    return pack(result);
  };
  LabelPredictions predictions;
  const auto take = [&](int64_t number, std::string_view result) {
    const std::vector<double> values = unpack<double>(result);
    auto at = values.begin();
    for (const int64_t item : batches[static_cast<size_t>(number)].items) {
      const LabelRow& row = rows.items[static_cast<size_t>(item)];
      predictions.loss_sum += *at++;
      if (regression) {
        predictions.true_values.push_back(double{row.value});
        predictions.values.push_back(*at++);
        continue;
      }
      for (const int32_t label : row.labels) {
        if (label == kNoLabel) continue;
        predictions.truths.push_back(label);
        predictions.predicted.push_back(static_cast<int32_t>(*at++));
      }
    }
  };
  if (!divide(*request.ranks, request.stop, std::ssize(batches), score, take)) return std::nullopt;
  return predictions;
}

metrics::ConfusionMatrix confusion_matrix(const LabelPredictions& predictions, const LabelRows& rows,
                                          int64_t classes) {
  metrics::ConfusionMatrix matrix(classes);
  for (size_t i = 0; i < predictions.truths.size(); ++i)
    matrix.add(predictions.truths[i], predictions.predicted[i]);
  for (size_t label = 0; label < rows.unreached.size(); ++label)
    matrix.add_without_prediction(static_cast<int64_t>(label), rows.unreached[label]);
  return matrix;
}

std::vector<Metric> label_metrics(const models::TextEncoderConfig& config) {
  if (is_regression(config)) return {{.name = "spearman"}, {.name = "pearson"}};
  std::vector<Metric> metrics{{.name = "accuracy"}, {.name = "macro_f1"}};
  if (config.labelled == ClassificationTarget::tokens) return metrics;
  metrics.push_back({.name = "matthews"});
  if (config.labels.size() == 2) metrics.push_back({.name = "f1"});
  return metrics;
}

std::map<std::string, double> label_scores(const models::TextEncoderConfig& config,
                                           const LabelPredictions& predictions, const LabelRows& rows) {
  if (is_regression(config)) {
    // A correlation needs two numbers.
    if (predictions.values.size() < 2) return {{"spearman", 0}, {"pearson", 0}};
    return {{"spearman", metrics::spearman(predictions.values, predictions.true_values)},
            {"pearson", metrics::pearson(predictions.values, predictions.true_values)}};
  }
  const metrics::ConfusionMatrix matrix = confusion_matrix(predictions, rows, std::ssize(config.labels));
  std::map<std::string, double> scores{{"accuracy", matrix.accuracy()}, {"macro_f1", matrix.macro_f1()}};
  if (config.labelled == ClassificationTarget::tokens) return scores;
  scores["matthews"] = matrix.matthews();
  if (config.labels.size() == 2) scores["f1"] = matrix.f1(1);
  return scores;
}

}  // namespace qkv::train

#pragma once
// The common part of the tasks `classify` and `tag`.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"
#include "qkv/models/text_encoder.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/labels/label_rows.h"

namespace qkv::apps {

// {"texts": [[ids of a text], ...], "labels": [...]} for --save-batches; "values" for numbers.
nlohmann::json label_batch_json(const train::Batch& batch);

struct LabelEvaluation : EvaluationArguments {
  models::ClassificationTarget target = models::ClassificationTarget::texts;
};

// Tokenizes the test data; empty `labels`: numbers.
using EncodeTest = std::function<train::LabelRows(
    const text::Tokenizer& tokenizer, const std::vector<std::string>& labels, int64_t max_length)>;

// Opens the model, predicts the labels of the test data and prints the metrics.
void evaluate_labels(const LabelEvaluation& arguments, const EncodeTest& encode);

}  // namespace qkv::apps

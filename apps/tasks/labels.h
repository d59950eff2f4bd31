#pragma once
// What the tasks `classify` and `tag` share.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/command.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/text_encoder.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/labels/label_rows.h"

namespace qkv::apps {

// {"texts": [[ids of a text], ...], "labels": [...]} for --save-batches; "values" for numbers.
nlohmann::json label_batch_json(const train::Batch& batch);

struct LabelEvaluation {
  std::string model = {}, test = {};
  models::LoadOptions load = {};
  models::ClassificationTarget target = models::ClassificationTarget::texts;
  bool json = false;
};

// Tokenizes the test data; empty `labels`: numbers.
using EncodeTest = std::function<train::LabelRows(
    const text::Tokenizer& tokenizer, const std::vector<std::string>& labels, int64_t max_length)>;

// Adds the arguments.
void add_label_evaluation(Command& command, LabelEvaluation& arguments);
// Opens the model, predicts the labels of the test data and prints the metrics.
void evaluate_labels(const LabelEvaluation& arguments, const EncodeTest& encode);

}  // namespace qkv::apps

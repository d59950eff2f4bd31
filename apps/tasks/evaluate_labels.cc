// The common flags of qkv train classify and qkv train tag; qkv evaluate classify, qkv evaluate tag

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/cli/messages.h"
#include "apps/tasks/labels.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/train/tasks/labels/label_scores.h"

namespace qkv::apps {
namespace {

using models::ClassificationTarget;
using nlohmann::ordered_json;

constexpr int64_t kBatchTokens = 4096;

std::vector<std::vector<int32_t>> sequences(const data::TokenRows& rows) {
  std::vector<std::vector<int32_t>> result;
  for (size_t i = 0; i + 1 < rows.offsets.size(); ++i)
    result.emplace_back(rows.ids.begin() + rows.offsets[i], rows.ids.begin() + rows.offsets[i + 1]);
  return result;
}

std::shared_ptr<const pipelines::LoadedTextEncoder> open(const LabelEvaluation& arguments) {
  auto opened = pipelines::open_text_encoder(arguments.model, arguments.load);
  if (opened->model->config().labelled == arguments.target) return opened;
  throw DataError(concat(arguments.model, "/config.json: expected a model with a ",
                         arguments.target == ClassificationTarget::texts ? "text" : "token",
                         " classification head, found none"));
}

ordered_json json_of(const models::TextEncoderConfig& config, const train::LabelPredictions& predictions,
                     const train::LabelRows& rows) {
  const bool words = config.labelled == ClassificationTarget::tokens;
  ordered_json out{{words ? "sentences" : "texts", rows.items.size()}};
  out["cut"] = rows.cut;
  out["loss"] = predictions.loss();
  const std::map<std::string, double> scores = train::label_scores(config, predictions, rows);
  for (const train::Metric& metric : train::label_metrics(config)) out[metric.name] = scores.at(metric.name);
  if (!predictions.values.empty()) return out;

  const metrics::ConfusionMatrix matrix =
      train::confusion_matrix(predictions, rows, std::ssize(config.labels));
  out["micro_f1"] = matrix.micro_f1();
  if (words) {
    int64_t unreached = 0;
    for (const int64_t count : rows.unreached) unreached += count;
    out["words"] = matrix.total();
    out["words_without_prediction"] = unreached;
  }
  out["labels"] = ordered_json::array();
  out["confusion"] = ordered_json::array();
  for (int64_t truth = 0; truth < matrix.classes(); ++truth) {
    out["labels"].push_back({{"label", config.labels[static_cast<size_t>(truth)]},
                             {"count", matrix.truths(truth)},
                             {"precision", matrix.precision(truth)},
                             {"recall", matrix.recall(truth)},
                             {"f1", matrix.f1(truth)}});
    std::vector<int64_t> row;
    for (int64_t predicted = 0; predicted < matrix.classes(); ++predicted)
      row.push_back(matrix.count(truth, predicted));
    out["confusion"].push_back(row);
  }
  return out;
}

std::string label_text(const ordered_json& result) {
  std::vector<std::vector<std::string>> scores;
  const auto add = [&](std::string name, const std::string& value) {
    std::ranges::replace(name, '_', ' ');
    scores.push_back({name, value});
  };
  for (const char* name : {"texts", "sentences", "words", "cut", "words_without_prediction"}) {
    if (result.contains(name)) add(name, std::to_string(result[name].get<int64_t>()));
  }
  for (const char* name :
       {"loss", "accuracy", "macro_f1", "micro_f1", "f1", "matthews", "spearman", "pearson"}) {
    if (result.contains(name)) add(name, fixed(result[name].get<double>(), 4));
  }
  std::string text = table_text(scores);
  if (!result.contains("labels")) return text;
  std::vector<std::vector<std::string>> table{{"label", "count", "precision", "recall", "f1"}};
  std::vector<std::vector<std::string>> confusion{{"true \\ predicted"}};
  for (size_t i = 0; i < result["labels"].size(); ++i) {
    const ordered_json& label = result["labels"][i];
    const std::string name = label["label"];
    const auto share = [&](const char* key) { return fixed(label[key].get<double>(), 4); };
    table.push_back({name, std::to_string(label["count"].get<int64_t>()), share("precision"), share("recall"),
                     share("f1")});
    confusion.front().push_back(name);
    confusion.push_back({name});
    for (const ordered_json& count : result["confusion"][i])
      confusion.back().push_back(std::to_string(count.get<int64_t>()));
  }
  return concat(text, "\n", table_text(table), "\n", table_text(confusion));
}

}  // namespace

nlohmann::json label_batch_json(const train::Batch& batch) {
  const auto& own = dynamic_cast<const train::LabelBatch&>(batch);
  nlohmann::json result{{"texts", sequences(own.texts)}};
  if (own.values.empty()) {
    result["labels"] = own.labels;
  } else {
    result["values"] = own.values;
  }
  return result;
}

void evaluate_labels(const LabelEvaluation& arguments, const EncodeTest& encode) {
  const auto opened = open(arguments);
  const models::TextEncoderConfig& config = opened->model->config();
  const bool regression =
      config.labelled == ClassificationTarget::texts && config.problem == models::ProblemType::regression;
  const int64_t max_length = config.max_positions.value_or(512);
  const train::LabelRows rows =
      encode(opened->tokenizer, regression ? std::vector<std::string>() : config.labels, max_length);
  if (rows.cut > 0) say(concat(rows.cut, " texts were cut to the model's ", max_length, " tokens"));
  const auto predictions = train::predict(*opened->model, rows, kBatchTokens);
  const ordered_json result = json_of(config, *predictions, rows);
  std::cout << (arguments.json ? result.dump(2) + "\n" : label_text(result)) << std::flush;
}

}  // namespace qkv::apps

#include "qkv/train/tasks/labels/label_job.h"

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/train/ranks/node_share.h"

namespace qkv::train {
namespace {

void report(const char* name, const LabelRows& rows, const std::string& count, int64_t max_length) {
  int64_t unreached = 0;
  for (const int64_t words : rows.unreached) unreached += words;
  log_info(concat(name, ": ", count));
  if (rows.cut > 0)
    log_warning(concat(name, ": ", rows.cut, " of ", rows.items.size(), " texts were cut to ", max_length,
                       " tokens (train.max_length, or the model's limit)"));
  if (unreached > 0)
    log_warning(
        concat(name, ": ", counted(unreached, "words"), " without a token, or cut off, counted as wrong"));
}

}  // namespace

void LabelJob::check() const {
  check_settings();
  const Data data = read_data(nullptr);
  const bool knows_labels = encoder.from.empty() || reads_start();
  if (!data.labels.empty() && knows_labels) data.require_labels(encoder.labels(target(), data.labels));
}

std::unique_ptr<Task> LabelJob::make_task(bool resumes, TrainObserver& observer,
                                          const std::atomic<bool>* stop) const {
  observer.on_stage("reading the data");
  Data data;
  if (!node || node->is_first()) data = read_data(stop);
  data.labels = once_a_node<SharedTexts>(node, [&] { return SharedTexts{data.labels}; }).texts;
  EncoderStart start = open_start(resumes, observer, data.write_texts, stop);
  const bool regression = data.labels.empty();
  start.label(target(),
              regression ? std::vector<std::string>{"LABEL_0"} : start.labels(target(), data.labels),
              regression ? models::ProblemType::regression : models::ProblemType::single_label);
  const std::vector<std::string> labels = regression ? std::vector<std::string>() : start.config.labels;
  const int64_t max_length = start.max_length(task.max_length);

  observer.on_stage("tokenizing");
  LabelTask::Inputs inputs{.encoder = std::move(start), .options = task, .train = {}};
  const auto encode = [&](const auto& texts) {
    return once_a_node<LabelRows>(node, [&] { return texts(inputs.encoder.tokenizer, labels, max_length); });
  };
  inputs.train = encode(data.encode_train);
  report("training data", inputs.train, count(inputs.train), max_length);
  if (!valid.empty()) {
    inputs.valid = encode(data.encode_valid);
    report("validation data", *inputs.valid, count(*inputs.valid), max_length);
  }
  inputs.fields = task_fields();
  return std::make_unique<LabelTask>(std::move(inputs));
}

}  // namespace qkv::train

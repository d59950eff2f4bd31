#pragma once
// BERT's pretraining from a text: vocabulary, tokens, training, model folder.

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/data/corpus.h"
#include "qkv/models/shape.h"
#include "qkv/train/job.h"
#include "qkv/train/tasks/pretrain_bert/pretrain_bert_task.h"

namespace qkv::train {

// The origin of the tokenizer.
struct BertVocabularyOptions {
  // A folder with a WordPiece tokenizer, or its file, to use; empty: one is trained on the training text.
  std::filesystem::path tokenizer;
  int64_t size = 8000;  // special tokens included; smaller if the text yields fewer
  bool cased = false;   // keep case and accents
};

struct PretrainBertJob : Job {
  // Texts with one sentence a line and blank lines between documents, which gzip may compress.
  std::filesystem::path train, valid;  // valid empty: no validation
  // A folder of a BERT to continue, with its tokenizer; empty: random weights. `vocabulary` then has no
  // effect, and of `shape` only the rates of dropout have; the rest records the folder's.
  std::filesystem::path from;
  models::ModelShape shape;
  PretrainBertOptions task;
  BertVocabularyOptions vocabulary;
  data::OnBadLine bad_utf8 = data::OnBadLine::fail;

  PretrainBertJob();

  std::string task_name() const override { return "pretrain-bert"; }
  bool set_field(std::string_view name, std::string_view value) override;
  // model.max_positions is then train.max_length until it is set: positions beyond would have no training.
  void use_preset(std::string_view name) override;
  bool has_validation() const override { return !valid.empty(); }
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;
  TrainOptions trainer_options() const override;  // passes d_model to the schedule

 private:
  void list(Settings& all) override;
  Defaults short_run() const override;
  // With `from`, the learning rate is 5e-5, and the run has 3 epochs; throws UsageError naming a setting that
  // the folder decides.
  void complete_task(const std::set<std::string>& given) override;
  void refuse_unused(const std::set<std::string>& given) const override;

  bool positions_follow_length_ = false;  // model.max_positions is train.max_length
};

}  // namespace qkv::train

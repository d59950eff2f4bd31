#pragma once
// A translation model from two text files, from random weights or from a model folder: vocabulary, token
// stores, training, model folder.

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/data/corpus.h"
#include "qkv/models/config.h"
#include "qkv/text/train_sentencepiece.h"
#include "qkv/train/job.h"
#include "qkv/train/tasks/translation/translation_task.h"

namespace qkv::train {

// The origin of the tokenizer.
struct VocabularyOptions {
  // SentencePiece models to use; empty: trains them on the training corpus. `target_model` requires separate
  // vocabularies.
  std::filesystem::path model, target_model;
  bool separate = false;  // one vocabulary per language instead of a joint one
  int64_t size = 8000;    // of each; smaller if the text does not yield as many pieces
  // Lines to train on, a sample drawn by the seed; 0: all. SentencePiece takes some 0.1 ms and 2 KB for each.
  int64_t lines = 100'000;
  text::SubwordKind kind = text::SubwordKind::unigram;
  double character_coverage = 0.9999;
  bool byte_fallback = false;
  std::string source_lang, target_lang;  // such as "en"; recorded with the tokenizer
};

struct TranslationJob : Job {
  data::CorpusFiles train;
  data::CorpusFiles valid;  // both empty: no validation
  // A folder of an encoder-decoder (marian, t5, qkv) to start from, with its tokenizer; empty: random
  // weights. `vocabulary` then has no effect, and of `config` only the rates of dropout have; the rest
  // records the folder's.
  std::filesystem::path from;
  models::TransformerConfig config;  // vocabulary sizes and special ids are filled in
  TranslationOptions task;
  VocabularyOptions vocabulary;
  data::OnBadLine bad_utf8 = data::OnBadLine::fail;

  std::string task_name() const override { return "translation"; }
  void use_preset(std::string_view name) override { config = models::preset(name); }
  bool has_validation() const override { return !valid.source.empty(); }
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;
  TrainOptions trainer_options() const override;  // passes d_model to the schedule

 private:
  void list(Settings& all) override;
  Defaults short_run() const override;
  // With `from`, the settings of fine-tuning; throws UsageError naming a setting that the folder decides.
  void complete_task(const std::set<std::string>& given) override;
  void refuse_unused(const std::set<std::string>& given) const override;
};

}  // namespace qkv::train

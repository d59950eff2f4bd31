#pragma once
// A translation model from two text files: vocabulary, token stores, training, model folder.

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
#include "qkv/train/tasks/translation_task.h"

namespace qkv::train {

// Where the tokenizer comes from.
struct VocabularyOptions {
  // SentencePiece models to use; empty: they are trained on the training corpus. `target_model` only for
  // separate vocabularies.
  std::filesystem::path model, target_model;
  bool separate = false;  // a vocabulary for each language, in place of a joint one
  int64_t size = 8000;    // of each; fewer where the text does not yield so many
  text::SubwordKind kind = text::SubwordKind::unigram;
  double character_coverage = 0.9999;
  bool byte_fallback = false;
  std::string source_lang, target_lang;  // such as "en"; recorded with the tokenizer
};

struct TranslationJob : Job {
  data::CorpusFiles train;
  data::CorpusFiles valid;           // both empty: no validation
  models::TransformerConfig config;  // sizes of vocabularies and special ids are filled in
  TranslationOptions task;
  VocabularyOptions vocabulary;
  data::OnBadLine bad_utf8 = data::OnBadLine::fail;

  std::string task_name() const override { return "translation"; }
  bool set_field(std::string_view name, std::string_view value) override;
  std::vector<Field> fields() const override;
  void use_preset(std::string_view name) override { config = models::preset(name); }
  void complete(const std::set<std::string>& given) override;
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;
  TrainOptions trainer_options() const override;  // the schedule knows d_model
};

}  // namespace qkv::train

#pragma once
// A translation model from two text files: vocabulary, token stores, training, model folder.

#include <atomic>
#include <filesystem>

#include "qkv/data/corpus.h"
#include "qkv/models/config.h"
#include "qkv/text/train_sentencepiece.h"
#include "qkv/train/tasks/translation_task.h"
#include "qkv/train/trainer.h"

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

struct TranslationJob {
  data::CorpusFiles train;
  data::CorpusFiles valid;  // both empty: no validation
  std::filesystem::path folder;
  models::TransformerConfig config;  // sizes of vocabularies and special ids are filled in
  TranslationOptions task;
  TrainOptions options;  // schedule.d_model is filled in
  VocabularyOptions vocabulary;
  data::OnBadLine bad_utf8 = data::OnBadLine::fail;
  IfRunExists existing = IfRunExists::refuse;
};

// Sets any setting of a job but the folder by its name with the namespace, from text: "model.d_model",
// "train.batch_tokens", "adam.beta2", "schedule.kind", "vocabulary.size", "data.source". Returns whether
// there is such a setting; throws UsageError for a value it cannot take.
bool set_field(TranslationJob& job, std::string_view name, std::string_view value);
// The settings by name, as set_field takes them.
std::vector<Field> fields(const TranslationJob& job);

// Does the whole job. Everything that can be known to be wrong is found before anything is written or
// computed: UsageError for options, IoError for files and folders, DataError for files with unequal numbers
// of lines. Then throws what Trainer throws.
TrainResult train_translation(const TranslationJob& job, TrainObserver& observer,
                              const std::atomic<bool>* stop = nullptr);

// The settings of the run whose newest whole checkpoint is in `folder`, by name, with facts that no set_field
// takes ("task", "data.fingerprint"); nothing where there is none. Throws DataError where none is whole.
std::optional<Fields> fields_of_run(const std::filesystem::path& folder);

}  // namespace qkv::train

#pragma once
// The encoder that a run of `classify` or `tag` starts with: of a model folder, or with random weights.

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/shape.h"
#include "qkv/models/text_encoder.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/fields.h"
#include "qkv/train/job.h"
#include "qkv/train/tasks/start_folder.h"

namespace qkv::train {

struct EncoderOptions {
  std::filesystem::path from;  // a model folder to start from; empty: random weights
  // Of a model with random weights. With `from`, complete() fills in the folder's sizes; only the dropout
  // rates may differ from them.
  models::ModelShape shape;
  // Of a model with random weights: a folder with the tokenizer; empty: a WordPiece tokenizer is trained on
  // the training texts.
  std::filesystem::path tokenizer;
  int64_t vocabulary_size = 8000;  // of that tokenizer; smaller if the texts yield fewer pieces
  bool lowercase = true;           // of that tokenizer, which then also strips accents

  void complete(const std::set<std::string>& given);
  // `reads_from`: false in a resumed run, whose folder `from` may have vanished.
  // Throws UsageError for a folder whose family has no such head.
  void check(bool reads_from, models::ClassificationTarget target) const;
  // The labels that a new run has, if its training data have these.
  std::vector<std::string> labels(models::ClassificationTarget target,
                                  const std::vector<std::string>& found) const;
};

void list_settings(Settings& all, EncoderOptions& options);

// The labels of this kind of a folder's model, if they include all of these, so that its classifier can be
// kept; else these.
std::vector<std::string> labels_for(const models::TextEncoderConfig& own, models::ClassificationTarget target,
                                    const std::vector<std::string>& found);

struct EncoderStart {
  models::TextEncoderConfig config;  // without heads
  std::string family = "bert";
  text::Tokenizer tokenizer;
  FileContents tokenizer_files = {};
  std::optional<StartFolder> start = {};  // of EncoderOptions::from

  // Those that labels_for() gives with the folder's model; without a folder, these.
  std::vector<std::string> labels(models::ClassificationTarget target,
                                  const std::vector<std::string>& found) const;
  // Adds the head. Throws UsageError for a family without it.
  void label(models::ClassificationTarget target, std::vector<std::string> labels,
             models::ProblemType problem);
  // For Task::begin(); tokenizer_config.json gets max_length(wanted_length) as "model_max_length".
  void begin(const std::filesystem::path& run, int64_t wanted_length) const;
  // The maximum length of a text, in tokens; `wanted` 0: the model's.
  int64_t max_length(int64_t wanted) const;
};

// Opens the folder or makes the tokenizer. `write_texts` writes the training texts to a file. The tokenizer
// of a run that `resumes` is in `run`. Throws the errors of StartFolder, text::Tokenizer and
// text::train_tokenizer(); UsageError for invalid sizes.
EncoderStart open_encoder(const EncoderOptions& options, const std::filesystem::path& run, bool resumes,
                          const std::function<void(const std::filesystem::path& file)>& write_texts,
                          const std::atomic<bool>* stop);

}  // namespace qkv::train

#pragma once
// Training that starts from a model folder (`--from DIR`, the setting model.from) instead of random weights.
//
// The run keeps copies of the folder's config.json, tokenizer and other small files in RUN/start, so that it
// can be resumed when the folder has vanished. The weights are read once, when the run starts.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/shape.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/fields.h"
#include "qkv/train/options.h"
#include "qkv/train/task.h"

namespace qkv::train {

// The copies' folder, in the run's.
inline constexpr const char* kStartCopies = "start";

// Names, relative to the folder, and contents of files.
using FileContents = std::vector<std::pair<std::string, std::string>>;

// Adds a file; returns false if the folder lacks it.
bool take_file(const std::filesystem::path& folder, const std::filesystem::path& name, FileContents& files);
// The files of the tokenizer in a folder, with their settings: tokenizer.json, or the older ones.
FileContents read_tokenizer_files(const std::filesystem::path& folder);
// Writes them into a run's folder and removes those of another tokenizer. Throws IoError.
void write_tokenizer_files(const std::filesystem::path& run, const FileContents& files);

class StartFolder {
 public:
  // `from`: the folder with the weights. Its small files are read from there; in a run that `resumes`, from
  // the copies in `run`. Throws IoError, DataError for an unknown or damaged config.json, and UsageError
  // naming model.from for a folder of another kind.
  StartFolder(std::filesystem::path from, models::FolderKind kind, const std::filesystem::path& run,
              bool resumes);

  const std::filesystem::path& from() const { return from_; }
  const std::string& family() const { return family_; }  // "bert"

  // The configuration of the folder's model, its own heads included. Throws the errors of
  // models::read_*_config(). Only the function of the folder's kind may be called.
  models::LanguageModelConfig language_model_config() const;
  models::TextEncoderConfig text_encoder_config() const;
  models::ImageEncoderConfig image_encoder_config() const;
  models::TransformerConfig transformer_config() const;

  // The tokenizer. Throws the errors of text::Tokenizer::load(), and DataError if it has more tokens than the
  // model's `vocabulary`.
  text::Tokenizer tokenizer(int64_t vocabulary) const;

  // Other small files, such as preprocessor_config.json or modules.json, are in this folder: `from`, or the
  // copies.
  const std::filesystem::path& files_at() const { return files_at_; }

  // For Task::begin(): writes the copies, and the tokenizer beside the model to be exported. Throws IoError.
  void begin(const std::filesystem::path& run) const;

 private:
  std::filesystem::path from_, files_at_;
  std::string family_;
  FileContents files_;  // all copies
};

// For Task::initialise(): gives all parameters of the model values. Parts that the folder's model has too get
// its values, as f32 (bf16 and int8 weights are converted, with a warning for int8). Parts that it lacks get
// the initial values of the seed: heads of another kind, a classifier with other labels. Throws the errors of
// models::load_*(), and DataError if the folder's model differs in another part.
void initialise_from(const std::filesystem::path& from, const models::LanguageModel& model, uint64_t seed);
void initialise_from(const std::filesystem::path& from, const models::TextEncoder& model, uint64_t seed);
void initialise_from(const std::filesystem::path& from, const models::ImageEncoder& model, uint64_t seed);
void initialise_from(const std::filesystem::path& from, const models::Transformer& model, uint64_t seed);

// Whether a field is a rate of dropout, which does not change the shapes of weights.
bool is_dropout_rate(std::string_view field);

// For Job::complete(): throws UsageError naming a `given` setting that the folder decides, of the model,
// except rates of dropout and stochastic depth, or one that begins with one of `others`: of the tokenizer, of
// preprocessing.
void refuse_settings_of_folder(const std::set<std::string>& given,
                               std::initializer_list<std::string_view> others);

// For Job::complete(): gives a folder's settings the `wanted` values of those that are `given`.
template <class Settings>
void take_given(Settings& own, const Settings& wanted, const std::set<std::string>& given) {
  for (const auto& [name, value] : models::fields(wanted)) {
    if (given.contains(concat(kModelFields, name))) models::set_field(own, name, value);
  }
}

// The sizes of a folder's model, for the record.
models::ModelShape shape_of(const nn::StackOptions& stack, int64_t max_positions);

// Defaults for training from a folder: learning rate 5e-5, falling linearly to 0, 3 epochs.
void complete_fine_tuning(TrainOptions& options, const std::set<std::string>& given);
// The last of these alone: 3 epochs, unless a limit of epochs, steps or minutes is given.
void limit_fine_tuning(TrainOptions& options, const std::set<std::string>& given);

}  // namespace qkv::train

#pragma once
// The training loop of a translation model.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "qkv/base/files.h"
#include "qkv/io/tensorboard.h"
#include "qkv/models/transformer.h"
#include "qkv/text/marian_tokenizer.h"
#include "qkv/train/checkpoint.h"
#include "qkv/train/observer.h"
#include "qkv/train/options.h"
#include "qkv/train/prefetcher.h"
#include "qkv/train/validation.h"

namespace qkv::train {

// What to do where the output folder already holds a run or a model.
enum class IfRunExists {
  refuse,   // UsageError
  resume,   // go on from the newest checkpoint; a new run where there is none
  replace,  // begin anew, and write over it
};

// Throws UsageError where the folder holds a run or a model that `existing` does not allow for.
void require_fitting_folder(const std::filesystem::path& folder, IfRunExists existing);

enum class StopReason { max_epochs, max_steps, max_minutes, no_improvement, requested };
const char* describe(StopReason reason);  // "the limit of steps was reached"

struct TrainResult {
  StopReason reason = StopReason::max_steps;
  int64_t steps = 0, epochs = 0;  // done; epochs: whole ones
  double seconds = 0;
  double train_loss = 0;                            // label-smoothed, per target token, of the last step
  std::optional<ValidationReport> last_validation;  // of this call
  std::optional<double> best_score;                 // BLEU, or the negative loss
  int64_t best_step = 0;                            // whose weights the exported model has
};

// What a Trainer trains on. The tokenizer is saved with the model; the rest outlives the trainer.
struct TrainerInputs {
  const text::MarianTokenizer& tokenizer;
  const data::TokenStore& train;
  const ValidationSet* valid = nullptr;  // null: no validation
  std::filesystem::path folder;
};

// Holds a run: model, optimizer, data cursor, and its files in a folder:
//   config.json, model.safetensors, tokenizer files: the best model so far (the latest, without validation)
//   checkpoints/: to resume from        snapshots/: weights for averaging        runs/: TensorBoard's curves
// After an exception a trainer is of no more use; the checkpoints on disk are.
class Trainer {
 public:
  // `config` has the tokenizer's vocabulary sizes and special ids (see complete_config). Throws UsageError
  // for options out of range, for a folder that another trainer works in and, where it resumes, for one that
  // contradicts the checkpoint, naming it; DataError or IoError for a checkpoint that cannot be read.
  Trainer(const models::TransformerConfig& config, const TrainOptions& options, const TrainerInputs& inputs,
          IfRunExists existing);

  // Trains until a limit is reached or *stop is true, which is looked at after each step; then saves. The
  // resulting weights are the same bits for any number of threads and any number of stops and resumptions.
  // Throws NumericError naming step, layer and tensor where a NaN or an infinity turns up; IoError where a
  // file cannot be written; the last checkpoint then remains.
  TrainResult run(TrainObserver& observer, const std::atomic<bool>* stop = nullptr);

  models::Transformer& model() { return *model_; }
  const optim::Optimizer& optimizer() const { return *adam_; }
  const TrainState& state() const { return state_; }

 private:
  void start_anew();
  void resume(const Checkpoint& checkpoint);
  void require_same_options(const Fields& saved) const;

  void train_step();
  void run_batch(const data::TranslationRows& rows, float factor);
  [[noreturn]] void fail_not_finite(const std::string& what) const;
  StepReport report_step(double learning_rate);
  void log_window(const StepReport& report);

  std::optional<StopReason> limit_reached() const;
  bool validation_falls_due(int64_t epoch_before) const;
  bool checkpoint_falls_due() const;
  // False where it was stopped half way.
  bool validate(bool scheduled);
  void save_checkpoint();
  void export_model(const models::Transformer& model) const;
  // The weights to judge and to export: averaged where the options say so.
  const models::Transformer& evaluated_model();
  std::filesystem::path snapshot_file(int64_t step) const;
  void remove_old_snapshots() const;
  double seconds_now() const;

  TrainOptions options_;
  TrainerInputs inputs_;
  data::SpecialIds special_;
  Fields fields_;
  std::unique_ptr<models::Transformer> model_, averaged_;
  std::unique_ptr<optim::Optimizer> adam_;
  std::unique_ptr<Prefetcher> feed_;
  std::unique_ptr<io::EventWriter> events_;
  std::unique_ptr<FolderLock> lock_;  // two runs in one folder would remove each other's files
  CheckpointFolder checkpoints_;
  TrainState state_;

  // Of this call of run().
  TrainObserver* observer_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  std::chrono::steady_clock::time_point started_;
  double seconds_before_ = 0;
  int64_t first_step_ = 0;
  double first_progress_ = 0;  // epochs done when it began
  int64_t saved_step_ = -1;    // of the newest checkpoint
  double saved_seconds_ = 0;
  double last_loss_ = 0;
  TrainResult result_;
};

// The configuration with vocabulary sizes and special ids as the tokenizer has them. Throws UsageError where
// three-way tying meets separate vocabularies, or the configuration is not valid.
models::TransformerConfig complete_config(models::TransformerConfig config,
                                          const text::MarianTokenizer& tokenizer);

}  // namespace qkv::train

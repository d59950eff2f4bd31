#pragma once
// The training loop: steps, limits, checkpoints, averages, curves, validation, early stopping. What is
// trained is a Task.

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "qkv/train/checkpoint.h"
#include "qkv/train/observer.h"
#include "qkv/train/options.h"
#include "qkv/train/prefetcher.h"
#include "qkv/train/run_folder.h"
#include "qkv/train/run_log.h"

namespace qkv::train {

enum class StopReason { max_epochs, max_steps, max_minutes, no_improvement, requested };
const char* describe(StopReason reason);  // "the limit of steps was reached"

struct TrainResult {
  StopReason reason = StopReason::max_steps;
  int64_t steps = 0, epochs = 0;  // done; epochs: whole ones
  double seconds = 0;
  double train_loss = 0;                            // the objective, of the last step
  std::optional<ValidationReport> last_validation;  // of this call
  std::string best_by;                              // the metric that decides which weights are best
  std::map<std::string, double> best;               // loss and metrics of the best weights; empty: none yet
  int64_t best_step = 0;                            // of the weights in the exported model
};

// Holds a run: task, optimizer, position in the data, and its files in a folder:
//   the task's model files: the best model so far (the latest, without validation)
//   checkpoints/: to resume from        snapshots/: weights for averaging        curves and logs: RunLog's
// After an exception a trainer is of no more use; the checkpoints on disk are.
class Trainer {
 public:
  // The files that a task's model consists of; begin() may write others.
  static constexpr std::array kModelFiles{"model.safetensors", "config.json", "generation_config.json",
                                          "qkv_proof.json"};

  // Throws UsageError for options out of range, for a folder that another trainer works in and, where it
  // resumes, for a setting that contradicts the checkpoint, naming it; DataError or IoError for a checkpoint
  // that cannot be read.
  Trainer(std::unique_ptr<Task> task, const TrainOptions& options, const std::filesystem::path& folder,
          IfRunExists existing);
  // In a folder that is held already.
  Trainer(std::unique_ptr<Task> task, const TrainOptions& options, RunFolder folder);

  // Trains until a limit is reached or *stop is true, which is looked at after each step; then saves. The
  // resulting weights are the same bits for any number of threads and any number of stops and resumptions.
  // Throws NumericError naming step, layer and tensor where a NaN or an infinity turns up; IoError where a
  // file cannot be written; the last checkpoint then remains.
  TrainResult run(TrainObserver& observer, const std::atomic<bool>* stop = nullptr);

  const Task& task() const { return *task_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }
  const TrainState& state() const { return state_; }

 private:
  void start_new_run();
  void resume(const Checkpoint& checkpoint);
  void require_same_fields(const Fields& saved) const;

  void train_step();
  void run_batch(const Batch& batch, const BatchSize& step);
  [[noreturn]] void fail_not_finite(const std::string& what) const;
  StepReport report_step(double learning_rate);

  std::optional<StopReason> limit_reached() const;
  bool validation_falls_due(int64_t epoch_before) const;
  bool checkpoint_falls_due() const;
  // False where it was stopped half way.
  bool validate(bool scheduled);
  bool is_best(const Evaluation& evaluation, double value) const;
  void save_checkpoint();
  void require_folder() const;
  void set_best_model_aside() const;
  void put_best_model_back() const;
  // While it lives the task's parameters have the weights to judge and to export: averaged ones, where the
  // options say so.
  class EvaluatedWeights;
  std::vector<Tensor> evaluated_weights() const;
  std::filesystem::path snapshot_file(int64_t step) const;
  void remove_old_snapshots() const;
  double seconds_now() const;

  std::unique_ptr<Task> task_;
  TrainOptions options_;
  RunFolder run_folder_;  // two runs in one folder would remove each other's files
  std::filesystem::path folder_;
  TaskInfo info_;
  Metric best_by_;
  std::vector<Field> fields_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Prefetcher> feed_;
  std::unique_ptr<RunLog> log_;
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
  CurveShare step_loss_;  // the objective, of the current step
  TrainResult result_;
};

}  // namespace qkv::train

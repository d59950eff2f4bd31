#pragma once
// The training loop: steps, limits, checkpoints, averaging, curves, validation, early stopping, for any Task.

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/base/communicator.h"
#include "qkv/models/hub/adapters/adapter.h"
#include "qkv/train/checkpoint.h"
#include "qkv/train/observer.h"
#include "qkv/train/options.h"
#include "qkv/train/run_folder.h"
#include "qkv/train/run_log.h"

namespace qkv::train {

class Replica;

enum class StopReason { max_epochs, max_steps, max_minutes, schedule_end, no_improvement, requested };
const char* describe(StopReason reason);  // "the limit of steps was reached"

struct TrainResult {
  StopReason reason = StopReason::max_steps;
  int64_t steps = 0, epochs = 0;  // completed; epochs: whole ones
  double seconds = 0;
  int64_t schedule_steps = 0;                 // the last step of a cosine or linear schedule; 0: another kind
  std::optional<double> train_loss;           // the objective in the last step of this call
  std::vector<ValidationReport> validations;  // of this call
  Metric best_by;                             // which selects the best weights
  std::map<std::string, double> best;         // loss and metrics of the best weights; empty: none yet
  int64_t best_step = 0;                      // of the weights in the exported model
};

// A training run: task, optimizer, position in the data, and its files in a folder:
//   the task's model files: the best model so far (the latest, without validation)
//   checkpoints/: to resume from        snapshots/: weights for averaging        curves and logs: RunLog's
// After an exception a trainer is unusable, but its checkpoints remain valid.
class Trainer {
 public:
  // The files of a task's model; begin() may write others.
  static constexpr std::array kModelFiles{"model.safetensors",      "config.json",
                                          "generation_config.json", "qkv_proof.json",
                                          models::kAdapterWeights,  models::kAdapterConfig};

  // Throws UsageError for options out of range, for a folder in use by another trainer and, when resuming,
  // for a setting that contradicts the checkpoint, naming it; DataError or IoError for an unreadable
  // checkpoint.
  Trainer(std::unique_ptr<Task> task, const TrainOptions& options, const std::filesystem::path& folder,
          IfRunExists existing);
  // In a folder that is locked already. With several ranks, this is the root's, which alone reads and writes
  // the folder; the others follow() it (ranks/replica.h).
  Trainer(std::unique_ptr<Task> task, const TrainOptions& options, RunFolder folder,
          Communicator& ranks = alone());

  ~Trainer();

  // Trains until a limit is reached or *stop is true, which is polled after each step; then saves. The
  // weights have the same bits for any number of threads and any interruptions.
  // Before the first step, a schedule that needs total_steps and has none gets them: the steps of max_steps,
  // of max_epochs epochs as long as the first, and those that fit into max_minutes, by the measured time of
  // some steps without effect on the run; the fewest. Warm-up and validation are fitted to them, if the
  // options say so. With max_minutes, the rest of a cosine or linear schedule is fitted again as the speed
  // changes (ScheduleOptions::refits), and costly metrics of a validation that would take more than a tenth
  // of the time are computed of fewer items (TrainOptions::samples). Checkpoints store all that, and a run
  // with the same settings, max_steps and refits has the same bits. Throws NumericError naming step, layer
  // and tensor for a NaN or infinity, IoError if a file cannot be written; the last checkpoint then remains;
  // UsageError if no more steps fit than the warm-up has. A new run changes what the folder held only after
  // all that can be refused.
  TrainResult run(TrainObserver& observer, const std::atomic<bool>* stop = nullptr);

  const Task& task() const { return *task_; }
  // Ends the other ranks' part of the run; there are no further steps.
  void end();
  const TrainState& state() const { return state_; }

 private:
  void begin_new_run();
  void resume(const Checkpoint& checkpoint);
  void require_same_fields(const Fields& saved) const;
  // The plan of the run: steps, warm-up, validations (trainer_plan.cc).
  void adopt_plan();
  bool needs_plan() const;
  void plan();
  void plan_validations(int64_t total_steps, double seconds_per_step);
  void refit_schedule();
  void record_plan();
  double steps_in_epoch() const;
  int64_t steps_of_other_limits() const;  // than max_minutes; 0: none
  int64_t fitting_steps(double seconds_per_step) const;
  double seconds_at_the_end() const;
  ScheduleReport measure();
  double time_of_a_checkpoint();

  void train_step();
  bool stopped() const { return stopped_by_rank_ || (stop_ && *stop_); }
  [[noreturn]] void fail_not_finite(const std::string& what) const;
  StepReport report_step(double learning_rate);

  std::optional<StopReason> limit_reached() const;
  bool outlasts_schedule() const;  // by more steps than epochs may differ
  bool validation_falls_due(int64_t epoch_before) const;
  bool checkpoint_falls_due() const;
  // Of the run's time, by estimate.
  static constexpr double kValidationShare = 0.1;
  // Restricts the costly metrics of a validation to the items that fit into this share of a limited time.
  // Returns whether it did.
  bool fit_sample(bool scheduled);
  EvaluationRequest evaluation_request(bool scheduled) const;
  // False if it was stopped before the end.
  bool validate(bool scheduled);
  bool is_best(const Evaluation& evaluation, double value) const;
  void export_model();
  void save_checkpoint();
  void set_best_model_aside() const;
  void put_best_model_back() const;
  // During its lifetime, the task's parameters are the weights to evaluate and export: averaged ones, if
  // averaging is on.
  class EvaluatedWeights;
  std::vector<Tensor> evaluated_weights();
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
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<RunLog> log_;  // none before a new run begins
  CheckpointFolder checkpoints_;
  TrainState state_;

  // Of the current call of run().
  TrainObserver* observer_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_by_rank_ = false;
  std::chrono::steady_clock::time_point started_;
  double seconds_before_ = 0;
  int64_t first_step_ = 0;
  double first_progress_ = 0;  // epochs completed at its start
  int64_t saved_step_ = -1;    // of the newest checkpoint
  double saved_seconds_ = 0;
  std::optional<ExchangeReport> exchange_;  // since the last point of the curves
  CurveShare step_loss_;                    // the objective in the current step
  // The steps since the plan was last compared with their duration.
  struct Pace {
    double since = 0;   // seconds_now() at the first one
    double others = 0;  // seconds of validations and checkpoints between them
    int64_t first = 0;  // steps before
  } pace_;
  // Of the last one, or an estimate before; 0: unknown.
  double validation_seconds_ = 0, checkpoint_seconds_ = 0;
  TrainResult result_;
};

}  // namespace qkv::train

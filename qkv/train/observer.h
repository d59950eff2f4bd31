#pragma once
// Progress reports of a training run; the library itself never prints.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/train/task.h"

namespace qkv::train {

struct StartReport {
  TaskInfo task;
  int64_t parameters = 0;
  int64_t batches_in_epoch = 0;
  int64_t resumed_from = 0;  // step; 0: a new run
};

// The plan of a run, as far as the options leave it to the trainer (Trainer::run).
struct ScheduleReport {
  int64_t total_steps = 0;
  int64_t warmup_steps = 0;
  int64_t validate_every = 0;  // steps; 0: after each epoch
  // Measured for a limit of minutes; 0 without one.
  double seconds_per_step = 0;        // validation and checkpoints excluded
  double seconds_per_validation = 0;  // an estimate, without the checkpoint that follows
  double seconds_per_checkpoint = 0;
  double seconds = 0;  // duration of the measurement, part of the run's time
};

// The communication of a rank in some steps; times in seconds.
struct ExchangeReport {
  int64_t steps = 1;
  int64_t bytes_sent = 0;
  // From the first gradients that it sent until the last ones of the others had arrived; of that, before the
  // backward passes of all ranks had ended.
  double gradients = 0, gradients_hidden = 0;
  // While the weights that the step before has updated were under way; of that, without those in which the
  // rank waited for them.
  double weights = 0, weights_hidden = 0;
  double waited = 0;  // for messages, and for ranks that were still computing
};

struct StepReport {
  int64_t step = 0;           // from 1
  int64_t epoch = 0;          // from 1
  double epoch_progress = 0;  // 0 to 1
  double loss = 0;            // the objective, averaged over the last steps
  // All curves of the task, "loss" first, averaged likewise.
  std::vector<std::pair<std::string, double>> curves;
  double gradient_norm = 0;                     // before clipping, averaged likewise
  double learning_rate = 0;                     // of this step
  double units_per_second = 0;                  // TaskInfo::units, averaged likewise
  double seconds = 0;                           // since the run started, resumed parts included
  std::optional<double> seconds_left;           // until the nearest limit
  std::optional<ExchangeReport> exchange = {};  // of several ranks, the root's: sums over the same steps

  // A curve by name; nothing for an unknown name.
  std::optional<double> curve(const std::string& name) const;
};

struct ValidationReport {
  int64_t step = 0, epoch = 0;
  Evaluation evaluation;
  bool best = false;       // so far
  double seconds = 0;      // duration of the validation
  double run_seconds = 0;  // since the run started, resumed parts included
};

// All functions are called on the training thread.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // A lengthy stage begins: "training a vocabulary".
  virtual void on_stage(const std::string& /*what*/) {}
  virtual void on_start(const StartReport& /*report*/) {}
  // Called before the first step if the trainer makes a plan.
  virtual void on_schedule(const ScheduleReport& /*report*/) {}
  // Called before the step that trains on it; a step has TrainOptions::accumulate batches.
  virtual void on_batch(const Batch& /*batch*/) {}
  virtual void on_step(const StepReport& /*report*/) {}
  virtual void on_validation(const ValidationReport& /*report*/) {}
  // Called before a checkpoint is written; files that a resumed run adds to must then be on the disk.
  virtual void before_checkpoint(int64_t /*step*/) {}
  virtual void on_checkpoint(int64_t /*step*/) {}
};

}  // namespace qkv::train

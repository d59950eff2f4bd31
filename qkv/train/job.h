#pragma once
// A training run from its settings: what `qkv train TASK` does.

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/train/trainer.h"

namespace qkv::train {

// The settings of a run by name, and the task that follows from them. A task that is trained from the command
// line derives its own.
class Job {
 public:
  virtual ~Job() = default;

  std::filesystem::path folder;                // of the run
  IfRunExists existing = IfRunExists::refuse;  // what to do if it holds one already
  TrainOptions options;

  // TaskInfo::name.
  virtual std::string task_name() const = 0;

  // Sets any setting but the folder by its name with the namespace, from text: "model.d_model",
  // "train.batch_tokens", "adam.beta2", "data.source". Returns whether there is such a setting; throws
  // UsageError for a value it cannot take.
  virtual bool set_field(std::string_view name, std::string_view value) = 0;
  // The settings by name, as set_field() takes them.
  virtual std::vector<Field> fields() const = 0;
  // Gives the model the settings of a preset. Throws UsageError naming the known ones.
  virtual void use_preset(std::string_view name) = 0;
  // Sets defaults that follow from other settings, unless they are among those that were `given`.
  virtual void complete(const std::set<std::string>& /*given*/) {}

  // Finds what can be known to be wrong before anything is written or computed. Throws UsageError for
  // settings, IoError and DataError for files.
  virtual void check() const = 0;
  // The task. Makes in the folder what it needs, or reads it if the run `resumes`. Throws Stopped soon after
  // *stop becomes true.
  virtual std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                          const std::atomic<bool>* stop) const = 0;
  // The options of the trainer, with what follows from the task's.
  virtual TrainOptions trainer_options() const { return options; }

 protected:
  Job() = default;
  Job(const Job&) = default;
  Job& operator=(const Job&) = default;
};

// check(), then the whole run. A run that is stopped or killed before its first checkpoint leaves its
// settings in the folder (RunFolder). Throws what check(), make_task() and Trainer throw.
TrainResult run_job(const Job& job, TrainObserver& observer, const std::atomic<bool>* stop = nullptr);
// The same in a folder that is held already.
TrainResult run_job(const Job& job, RunFolder folder, TrainObserver& observer,
                    const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train

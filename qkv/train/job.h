#pragma once
// Training runs from settings, for `qkv train TASK`.

#include <atomic>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/train/trainer.h"

namespace qkv::train {

class NodeShare;  // ranks/node_share.h

// The settings of a run by name, and its task. Each task of `qkv train` derives its own class.
class Job {
 public:
  virtual ~Job() = default;

  std::filesystem::path folder;                // of the run
  IfRunExists existing = IfRunExists::refuse;  // if it holds a run or a model
  TrainOptions options;

  // TaskInfo::name.
  virtual std::string task_name() const = 0;

  // Sets any setting but the folder by its name with the namespace, from text: "model.d_model",
  // "train.batch_tokens", "adam.beta2", "data.source". Returns false for an unknown setting; throws
  // UsageError for an invalid value.
  virtual bool set_field(std::string_view name, std::string_view value);
  // All settings, in the form of set_field().
  std::vector<Field> fields() const;
  // Those of them that are options of `qkv train`.
  std::vector<FieldFlag> flags() const;
  // Throws UsageError naming the first setting of data, model and task that is out of its range.
  void validate_ranges() const;
  // Applies a preset to the model. Throws UsageError listing the presets for an unknown one.
  virtual void use_preset(std::string_view name) = 0;
  // Sets defaults that depend on other settings, except the `given` ones ("preset" names that of
  // use_preset()): with max_minutes up to kShortMinutes those of short_run(), of each task those of
  // complete_task(), and of all that a warm-up and validations that are not given fit the run
  // (schedule.fit_warmup, train.fit_validation), so that a small run needs no other option.
  // Throws UsageError for a given setting that has no effect beside the others, of a task by refuse_unused().
  void complete(const std::set<std::string>& given);

  // Whether the settings name validation data.
  virtual bool has_validation() const = 0;

  // Finds invalid settings before anything is written or computed. Throws UsageError for settings, IoError
  // and DataError for files.
  virtual void check() const = 0;
  // Makes the task, with its files in the folder, which are read if the run `resumes`. Throws Stopped soon
  // after *stop becomes true.
  virtual std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                          const std::atomic<bool>* stop) const = 0;
  // With several ranks, which all call make_task(): for data that one rank of a node makes for all of it. Set
  // by run_job() and follow_job().
  mutable NodeShare* node = nullptr;
  // make_task(), with LoRA if the options ask for it.
  std::unique_ptr<Task> make_trained_task(bool resumes, TrainObserver& observer,
                                          const std::atomic<bool>* stop) const;
  // The trainer's options, completed by the task's.
  virtual TrainOptions trainer_options() const { return options; }

 protected:
  // Lists the settings of data, model and task: all but `options`.
  virtual void list(Settings& all) = 0;
  Settings task_settings() const;  // those of list()
  // Likewise, which the task records.
  std::vector<Field> task_fields() const;
  using Defaults = std::vector<std::pair<const char*, const char*>>;
  // Settings for a run of some minutes from random weights, in which the other defaults would make too few
  // steps: a small model and small batches. The sizes of a model are together: one that is given, or a
  // preset, keeps all.
  virtual Defaults short_run() const { return {}; }
  virtual void complete_task(const std::set<std::string>& /*given*/) {}
  virtual void refuse_unused(const std::set<std::string>& /*given*/) const {}

  static constexpr double kShortMinutes = 10;

  Job() = default;
  Job(const Job&) = default;
  Job& operator=(const Job&) = default;
};

// Throws UsageError naming the first of these settings that is `given`: "expected none " + why.
void refuse_given(const std::set<std::string>& given, std::initializer_list<const char*> names,
                  std::string_view why);

// check(), then the whole run. A run that ends before its first checkpoint leaves its settings in the
// folder (RunFolder); one that cannot begin leaves the folder as it was. Throws the errors of check(),
// make_task() and Trainer, and UsageError for a run in the folder that it starts from, for LoRA without
// such a folder, and for more ranks than batches in a step. With several ranks, this is the root's part.
TrainResult run_job(const Job& job, TrainObserver& observer, const std::atomic<bool>* stop = nullptr,
                    Communicator& ranks = alone());
// The same in a folder that is already locked.
TrainResult run_job(const Job& job, RunFolder folder, TrainObserver& observer,
                    const std::atomic<bool>* stop = nullptr, Communicator& ranks = alone());

// The part of the other ranks, with the settings and the tokenizer of the root; returns at its end. They read
// the data, once a node, and a model to start from, at the same paths, and use the tokens in the run's cache
// if they see it. `make_job` makes the job of a task by its name. *stop makes the root stop and save.
void follow_job(Communicator& ranks,
                const std::function<std::unique_ptr<Job>(const std::string& task)>& make_job,
                const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train

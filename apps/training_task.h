#pragma once
// The tasks that `qkv train` knows. Each is one file in apps/tasks/ and one line of the list in
// apps/training_tasks.cc.

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "qkv/train/job.h"

namespace qkv::apps {

// An option that is another way to say --set FIELD=VALUE.
struct FieldFlag {
  const char* flag;
  const char* field;
  const char* type;  // empty: a flag that says true
  const char* help;
};

struct TrainingTask {
  std::string name;                  // of the subcommand; also TaskInfo::name
  std::string description;           // one line
  std::string footer;                // of --help: an example, and what is to be known about the files
  std::vector<std::string> presets;  // of --preset
  std::string preset;                // its default
  // Of the task alone; those of every task are train's.
  std::span<const FieldFlag> flags;
  std::span<const FieldFlag> run_flags;  // those that a resumed run may have others of
  std::function<std::unique_ptr<train::Job>()> make_job;
  std::function<nlohmann::json(const train::Batch&)> batch_json;  // for --save-batches
};

const std::vector<TrainingTask>& training_tasks();
// The one of that name. Throws UsageError, which names the folder of the run, for a task that is not known.
const TrainingTask& task_named(const std::string& name, const std::filesystem::path& folder);

TrainingTask translation_task();

}  // namespace qkv::apps

#pragma once
// The tasks of `qkv train`. Each is one file in apps/tasks/ and one line in apps/training_tasks.cc.

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "qkv/train/job.h"

namespace qkv::apps {

class Command;

struct TrainingTask {
  std::string name;                  // of the subcommand; also TaskInfo::name
  std::string description;           // one line
  std::string footer;                // of --help: an example and notes on the files
  std::vector<std::string> presets;  // of --preset; empty: it does not exist
  std::string preset;                // its default
  std::function<std::unique_ptr<train::Job>()> make_job;
  std::function<nlohmann::json(const train::Batch&)> batch_json;  // for --save-batches
  // Adds the subcommand `name` to `qkv evaluate`.
  void (*add_evaluation)(Command& evaluate);
};

const std::vector<TrainingTask>& training_tasks();
// The task of that name. Throws UsageError naming the run's folder for an unknown task.
const TrainingTask& task_named(const std::string& name, const std::filesystem::path& folder);

TrainingTask pretrain_bert_task();
TrainingTask image_task();
TrainingTask translation_task();
TrainingTask lm_task();
TrainingTask classify_task();
TrainingTask tag_task();
TrainingTask answer_task();
TrainingTask embed_task();

}  // namespace qkv::apps

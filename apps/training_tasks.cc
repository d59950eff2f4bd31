#include "apps/training_task.h"
#include "qkv/base/error.h"

namespace qkv::apps {

const std::vector<TrainingTask>& training_tasks() {
  static const std::vector<TrainingTask> tasks{
      translation_task(),   lm_task(),    classify_task(), tag_task(), answer_task(),
      pretrain_bert_task(), image_task(), embed_task(),
  };
  return tasks;
}

const TrainingTask& task_named(const std::string& name, const std::filesystem::path& folder) {
  for (const TrainingTask& task : training_tasks()) {
    if (task.name == name) return task;
  }
  throw UsageError(concat(folder.string(), ": expected a run of a task of qkv train, found one of ",
                          name.empty() ? "no known task" : name));
}

}  // namespace qkv::apps

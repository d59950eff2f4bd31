// qkv evaluate

#include "apps/command.h"
#include "apps/training_task.h"

namespace qkv::apps {

void add_evaluate(Command& app) {
  Command* group = add_command(app, "evaluate", "Evaluate a model on test data",
                               "qkv evaluate translation model --src test.en --ref test.de");
  group->require_subcommand(1, 1);
  for (const TrainingTask& task : training_tasks()) task.add_evaluation(*group);
}

}  // namespace qkv::apps

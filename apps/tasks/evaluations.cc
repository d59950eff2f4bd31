#include "apps/tasks/evaluations.h"

#include "apps/load_options.h"

namespace qkv::apps {

void add_evaluation_arguments(Command& command, EvaluationArguments& arguments, const std::string& test_type,
                              const std::string& test_help, ModelPath path) {
  add_model_argument(command, arguments.model, path);
  add_option(command, "--test", arguments.test, test_type, test_help)->required();
  command.add_flag("--json", arguments.json, "Print the results as one JSON object");
  add_load_options(command, arguments.load);
  add_threads_option(command);
}

}  // namespace qkv::apps

#pragma once
// The subcommands of `qkv evaluate` (TrainingTask::add_evaluation), one per task.

#include <CLI/CLI.hpp>

namespace qkv::apps {

void add_translation_evaluation(CLI::App& group);

}  // namespace qkv::apps

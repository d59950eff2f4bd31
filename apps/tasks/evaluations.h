#pragma once
// The subcommands of `qkv evaluate` (TrainingTask::add_evaluation), one per task.

#include <string>

#include "apps/command.h"
#include "apps/load_options.h"
#include "qkv/models/hub/load_options.h"

namespace qkv::apps {

struct EvaluationArguments {
  std::string model, test;
  models::LoadOptions load = {};
  bool json = false;
};

// Adds the arguments model, --test, --json, and those of add_load_options() and add_threads_option().
void add_evaluation_arguments(Command& command, EvaluationArguments& arguments, const std::string& test_type,
                              const std::string& test_help, ModelPath path = ModelPath::folder);

void add_classify_evaluation(Command& group);
void add_tag_evaluation(Command& group);
void add_answer_evaluation(Command& group);
void add_pretrain_bert_evaluation(Command& group);
void add_image_evaluation(Command& group);
void add_translation_evaluation(Command& group);
void add_lm_evaluation(Command& group);
void add_embed_evaluation(Command& group);

}  // namespace qkv::apps

#pragma once
// The subcommands of `qkv evaluate` (TrainingTask::add_evaluation), one per task.

#include "apps/command.h"

namespace qkv::apps {

void add_classify_evaluation(Command& group);
void add_tag_evaluation(Command& group);
void add_pretrain_bert_evaluation(Command& group);
void add_image_evaluation(Command& group);
void add_translation_evaluation(Command& group);
void add_lm_evaluation(Command& group);
void add_embed_evaluation(Command& group);

}  // namespace qkv::apps

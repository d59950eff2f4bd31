#pragma once
// The options of the engine that decodes: memory and speed.

#include "apps/command.h"
#include "qkv/search/engine.h"

namespace qkv::apps {

struct EngineArguments {
  search::EngineOptions engine;
  search::StepModelOptions step_model;
};

// --batch-tokens, --cache-bytes and --cache-dtype. `arguments` must live as long as the command.
void add_engine_options(CLI::App& command, EngineArguments& arguments);

// Of language models: --prefill-tokens and --prefix-positions.
void add_prompt_options(CLI::App& command, EngineArguments& arguments);

}  // namespace qkv::apps

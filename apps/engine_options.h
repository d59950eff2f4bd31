#pragma once
// Options of the decoding engine: memory and speed.

#include "apps/command.h"
#include "qkv/search/engine/engine.h"

namespace qkv::apps {

struct EngineArguments {
  search::EngineOptions engine;
  search::StepModelOptions step_model;
};

// --batch-tokens, --cache-bytes and --cache-dtype. `arguments` must live as long as the command.
void add_engine_options(Command& command, EngineArguments& arguments);

void add_cache_dtype_option(Command& command, DType& dtype);

// For language models: --prefill-tokens and --prefix-bytes.
void add_prompt_options(Command& command, EngineArguments& arguments);

}  // namespace qkv::apps

#include "apps/engine_options.h"

#include "apps/cli/field_options.h"

namespace qkv::apps {

void add_engine_options(Command& command, EngineArguments& arguments) {
  add_field_options(command, arguments.engine);
  add_choice(command, "--cache-dtype", arguments.step_model.cache_dtype,
             {{"f32", DType::f32}, {"bf16", DType::bf16}},
             "Dtype of the KV cache. bf16 takes half the memory and changes last digits");
}

void add_prompt_options(Command& command, EngineArguments& arguments) {
  add_field_options(command, arguments.engine, search::EngineOptions::kPrompts);
}

}  // namespace qkv::apps

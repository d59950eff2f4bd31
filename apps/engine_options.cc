#include "apps/engine_options.h"

#include "apps/cli/field_options.h"

namespace qkv::apps {

void add_engine_options(Command& command, EngineArguments& arguments) {
  add_field_options(command, arguments.engine);
  add_cache_dtype_option(command, arguments.step_model.cache_dtype);
}

void add_cache_dtype_option(Command& command, DType& dtype) {
  add_choice(command, "--cache-dtype", dtype,
             {{"f32", DType::f32}, {"bf16", DType::bf16}, {"q8_0", DType::q8_0}},
             "Dtype of the KV cache. bf16 takes half the memory and changes last digits; q8_0, 8 bits in\n"
             "blocks of 32 with a scale, takes 0.27 of it");
}

void add_prompt_options(Command& command, EngineArguments& arguments) {
  add_field_options(command, arguments.engine, search::EngineOptions::kPrompts);
}

}  // namespace qkv::apps

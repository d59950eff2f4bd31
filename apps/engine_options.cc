#include "apps/engine_options.h"

namespace qkv::apps {

void add_engine_options(CLI::App& command, EngineArguments& arguments) {
  add_option(command, "--batch-tokens", arguments.engine.batch_tokens, "TOKENS",
             "Source tokens decoded side by side: memory against speed, never the results; 0: no bound");
  add_option(command, "--cache-bytes", arguments.engine.cache_bytes, "BYTES",
             "Memory for the keys and values of what is decoded side by side; a line that needs more is\n"
             "an error; 0: no bound");
  add_choice(command, "--cache-dtype", arguments.step_model.cache_dtype,
             {{"f32", DType::f32}, {"bf16", DType::bf16}},
             "Dtype of the keys and values. bf16 takes half the memory and changes last digits");
}

void add_prompt_options(CLI::App& command, EngineArguments& arguments) {
  add_option(command, "--prefill-tokens", arguments.engine.prefill_tokens, "TOKENS",
             "Prompt tokens read in a step, beside the one of each completion: a long prompt takes several\n"
             "steps; never the results");
  add_option(command, "--prefix-positions", arguments.step_model.prefix_positions, "TOKENS",
             "Prompt tokens whose keys and values are kept for prompts with the same beginning: memory\n"
             "against speed, never the results; 0: none")
      ->check(at_least<int64_t>(0));
}

}  // namespace qkv::apps

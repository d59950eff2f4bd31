#include "apps/engine_options.h"

namespace qkv::apps {

void add_engine_options(Command& command, EngineArguments& arguments) {
  add_option(command, "--batch-tokens", arguments.engine.batch_tokens, "TOKENS",
             "Source tokens decoded together: affects memory and speed, not results; 0: no limit");
  add_option(command, "--cache-bytes", arguments.engine.cache_bytes, "BYTES",
             "Maximum memory of the KV cache; a line that needs more is an error; 0: no limit");
  add_choice(command, "--cache-dtype", arguments.step_model.cache_dtype,
             {{"f32", DType::f32}, {"bf16", DType::bf16}},
             "Dtype of the KV cache. bf16 takes half the memory and changes last digits");
}

void add_prompt_options(Command& command, EngineArguments& arguments) {
  add_option(
      command, "--prefill-tokens", arguments.engine.prefill_tokens, "TOKENS",
      "Prompt tokens processed per step, besides one token of each completion; a long prompt takes several\n"
      "steps; does not affect results");
  add_option(command, "--prefix-positions", arguments.step_model.prefix_positions, "TOKENS",
             "Prompt tokens in the prefix cache, for prompts with the same beginning: affects memory\n"
             "and speed, not results; 0: none")
      ->check(at_least<int64_t>(0));
}

}  // namespace qkv::apps

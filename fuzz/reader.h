#pragma once
// A reader of untrusted data, run by libFuzzer (libfuzzer.cc) and by the mutation tests (tests/readers).

#include <string>
#include <string_view>
#include <vector>

namespace qkv::fuzz {

struct Reader {
  const char* name;
  // Reads hostile bytes and uses the result. May only throw qkv::Error.
  void (*read)(std::string_view bytes);
  // Valid inputs, from the tests' golden folders or written by qkv.
  std::vector<std::string> (*seeds)();
};

// One file each, in the folder of the layer that reads.
extern const Reader audio, audio_config, chat_template, checkpoint, cifar, command_line, corpus,
    generation_config, gguf, hub_answers, idx, image, json_schema, marian_files, merges_files, model_config,
    model_folder, preprocessor_config, proof, pytorch, questions, safetensors, sentence_transformer,
    sentencepiece, sentencepiece_files, shard_index, shortlist, text_file, token_store, tokenizer_json,
    wordpiece_files;

// Maximum length of inputs; longer ones would find nothing more.
inline constexpr size_t kMaxInput = size_t{1} << 20;

}  // namespace qkv::fuzz

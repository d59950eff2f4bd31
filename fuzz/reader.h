#pragma once
// A reader of what comes from elsewhere, as libFuzzer (libfuzzer.cc) and the tests of mutations
// (tests/readers) run it.

#include <string>
#include <string_view>
#include <vector>

namespace qkv::fuzz {

struct Reader {
  const char* name;
  // Reads hostile bytes, and uses what they describe. May throw qkv::Error, and nothing else.
  void (*read)(std::string_view bytes);
  // Well-formed inputs, from the tests' golden folders or made by qkv itself.
  std::vector<std::string> (*seeds)();
};

// Each is a file of this folder.
extern const Reader checkpoint, corpus, generation_config, image, marian_files, merges_files, model_config,
    model_folder, preprocessor_config, safetensors, sentence_transformer, sentencepiece, sentencepiece_files,
    shard_index, shortlist, token_store, tokenizer_json, wordpiece_files;

// Inputs longer than this are not read: what a longer one could show, one of this size shows.
inline constexpr size_t kMaxInput = size_t{1} << 20;

}  // namespace qkv::fuzz

#pragma once
// The byte-complete tokenizer of a small model, with other special tokens and a chat template.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/files.h"

namespace qkv::testing {

// Copies the folder of a model of random weights. `renamed`: its special tokens <|endoftext|> (0, of the
// model's end), <|im_start|> (1) and <|im_end|> (2), which ends answers too.
inline void write_chat_model(const std::filesystem::path& folder, const std::string& chat_template,
                             const std::vector<std::pair<std::string, std::string>>& renamed = {}) {
  std::filesystem::copy(QKV_TEST_DATA "/apps/golden/hub/SmolLM2-135M", folder);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::string text = read_file(folder / name);
    for (const auto& [from, to] : renamed) {
      for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    }
    write_file_atomically(folder / name, text);
  }
  write_file_atomically(folder / "chat_template.jinja", chat_template);
  write_file_atomically(folder / "generation_config.json", R"({"eos_token_id": [0, 2]})");
}

}  // namespace qkv::testing

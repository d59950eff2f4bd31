// Reads BERT's tokenizer files: vocab.txt and configuration files, separated by zero bytes.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/text/tokenizer.h"

namespace qkv::fuzz {
namespace {

constexpr std::initializer_list<const char*> kNames{"vocab.txt", "tokenizer_config.json",
                                                    "special_tokens_map.json", "config.json"};

void read(std::string_view bytes) {
  static const std::filesystem::path folder = scratch_folder("wordpiece_files");
  write_files(folder, kNames, bytes);
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  tokenizer.decode(tokenizer.encode("Hello [MASK]  wörld, 中文 12345\n", "second text").ids);
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const auto& folder : golden_folders({"apps/golden/hub"}, "vocab.txt"))
    all.push_back(joined_files(folder, kNames));
  return all;
}

}  // namespace

const Reader wordpiece_files{"wordpiece_files", read, seeds};

}  // namespace qkv::fuzz

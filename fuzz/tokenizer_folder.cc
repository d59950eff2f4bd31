// Reads the older tokenizer files: the input is a vocab.json, a merges.txt and a tokenizer_config.json,
// separated by zero bytes.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/text/tokenizer.h"

namespace {

const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    const auto made =
        std::filesystem::temp_directory_path() / ("fuzz-tokenizer-" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    return made;
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* const name : {"vocab.json", "merges.txt", "tokenizer_config.json"}) {
    const std::string_view content = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(content.size() < rest.size() ? content.size() + 1 : rest.size());
    std::ofstream(folder() / name, std::ios::binary) << content;
  }
  try {
    const qkv::text::Tokenizer tokenizer = qkv::text::Tokenizer::load(folder());
    tokenizer.decode(tokenizer.encode("Hello [MASK]  wörld, 中文 12345\n", "second text").ids);
  } catch (const qkv::Error&) {
    // Rejected, as expected.
  }
  return 0;
}

#include "qkv/pipelines/parts/content_hash.h"

#include "qkv/base/files.h"
#include "qkv/base/hash.h"

namespace qkv::pipelines {

namespace fs = std::filesystem;

std::string hash_text(uint64_t hash) {
  std::string digits(16, '0');
  for (size_t i = digits.size(); i-- > 0; hash /= 16) digits[i] = "0123456789abcdef"[hash % 16];
  return digits;
}

std::string content_hash(const fs::path& path) {
  Hash64 hash;
  const auto add = [&hash](const fs::path& file) {
    InputFile in(file);
    std::string block(1 << 20, '\0');
    while (const size_t bytes = in.read(block.data(), block.size())) hash.add(block.data(), bytes);
  };
  if (!is_folder(path)) {
    add(path);
    return hash_text(hash.value());
  }
  const auto add_files = [&](const fs::path& folder) {
    for (const fs::path& file : files_in(folder)) {
      if (is_folder(file) || file.filename() == "log.jsonl") continue;
      hash.add(file.string().substr(path.string().size()));
      add(file);
    }
  };
  add_files(path);
  for (const fs::path& inner : files_in(path)) {
    const fs::path name = inner.filename();
    if (is_folder(inner) && name != "checkpoints" && name != "cache") add_files(inner);
  }
  return hash_text(hash.value());
}

}  // namespace qkv::pipelines

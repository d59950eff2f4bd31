// Reads a token store: the bytes unchanged, and again with their correct checksum, which random mutation
// never finds.

#include "qkv/data/token_store.h"

#include <cstring>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/hash.h"

namespace qkv::fuzz {
namespace {

// The footer of 11 words; the checksum of everything before it is followed by the version and the magic
// number.
constexpr size_t kFooter = 88, kHash = 64;

std::filesystem::path folder() { return scratch_folder("token_store"); }

void read_store(const std::string& bytes) {
  write(folder() / "tokens", bytes);
  const data::TokenStore store = data::TokenStore::open(folder() / "tokens");
  int64_t sum = 0;
  for (int64_t pair = 0; pair < store.pairs(); ++pair) {
    for (const int32_t id : store.source(pair)) sum += id;
    for (const int32_t id : store.target(pair)) sum -= id;
    sum += store.line(pair);
  }
  volatile int64_t used = sum;
  static_cast<void>(used);
}

void read(std::string_view bytes) {
  const std::string store(bytes);
  std::string right = store;
  if (store.size() >= kFooter) {
    const size_t body = store.size() - kFooter;
    Hash64 hash;
    hash.add(store.data(), body);
    const uint64_t value = hash.value();
    std::memcpy(right.data() + body + kHash, &value, sizeof value);
  }
  read_in_each_way({[&] { read_store(right); }, [&] { read_store(store); }});
}

std::vector<std::string> seeds() {
  write(folder() / "source", "a house\nthe house\n");
  write(folder() / "target", "ein Haus\ndas Haus\n");
  const auto tokenizer = text::TranslationTokenizer::load(golden("pipelines/golden/marian"));
  data::TokenStore::build({folder() / "source", folder() / "target"}, tokenizer, folder() / "tokens");
  return {joined_files(folder(), {"tokens"})};
}

}  // namespace

const Reader token_store{"token_store", read, seeds};

}  // namespace qkv::fuzz

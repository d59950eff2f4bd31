#include "qkv/base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace qkv {
namespace {

uint64_t hash_of(std::string_view text) {
  Hash64 hash;
  hash.add(text);
  return hash.value();
}

TEST(Hash64, DoesNotDependOnChunking) {
  const std::string text = "a text of more than two words of eight bytes";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      Hash64 hash;
      hash.add(text.substr(0, first));
      hash.add(text.substr(first, second - first));
      hash.add(text.substr(second));
      ASSERT_EQ(hash.value(), hash_of(text)) << first << " " << second;
    }
  }
}

TEST(Hash64, DependsOnEveryBitAndTheLength) {
  std::set<uint64_t> seen;
  std::string text(40, '\0');
  seen.insert(hash_of(text));
  for (size_t byte = 0; byte < text.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      text[byte] = static_cast<char>(1 << bit);
      EXPECT_TRUE(seen.insert(hash_of(text)).second) << byte << " " << bit;
    }
    text[byte] = '\0';
  }
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_TRUE(seen.insert(hash_of(text.substr(0, length))).second) << length;
  }
}

}  // namespace
}  // namespace qkv

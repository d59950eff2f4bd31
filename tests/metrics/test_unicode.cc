#include <gtest/gtest.h>

#include <cstdint>

#include "golden.h"
#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/metrics/unicode.h"

namespace {

using namespace qkv;
using namespace qkv::metrics;

template <class Body>
void for_every_code_point(Body body) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c >= 0xE000) body(c);
  }
}

TEST(Utf8, InvalidBytesAreReplacedAsPythonDoes) {
  for (const auto& row : golden::read("utf8.tsv")) {
    EXPECT_EQ(encode_utf8(decode_utf8(golden::unescape(row[0]))), golden::unescape(row[1])) << row[0];
  }
}

TEST(Lowercase, EqualsPython) {
  for (const auto& row : golden::read("lowercase.tsv")) {
    EXPECT_EQ(encode_utf8(lowercase(decode_utf8(golden::unescape(row[0])))), golden::unescape(row[1]))
        << row[0];
  }
  uint64_t checksum = 0xCBF29CE484222325u;
  for_every_code_point([&](char32_t c) {
    for (const char32_t l : lowercase({&c, 1})) checksum = (checksum ^ l) * 0x100000001B3u;
  });
  EXPECT_EQ(std::to_string(checksum), golden::read("unicode.tsv")[0][1]);
}

TEST(Whitespace, EqualsPython) {
  std::string spaces;
  for_every_code_point([&](char32_t c) {
    if (is_space(c)) spaces += qkv::concat(spaces.empty() ? "" : " ", static_cast<uint32_t>(c));
  });
  EXPECT_EQ(spaces, golden::read("unicode.tsv")[1][1]);
}

TEST(Whitespace, SplitsAndStrips) {
  const std::u32string text = U" \u00A0a\u3000\u2028bc d\t\u0085";
  EXPECT_EQ(split_whitespace(text), (std::vector<std::u32string_view>{U"a", U"bc", U"d"}));
  EXPECT_TRUE(strip_right(text) == U" \u00A0a\u3000\u2028bc d");
  EXPECT_TRUE(split_whitespace(U" \t ").empty());
  EXPECT_TRUE(strip_right(U" \t ").empty());
}

}  // namespace

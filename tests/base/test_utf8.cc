#include "qkv/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace qkv {
namespace {

TEST(Utf8, AcceptsEveryLengthOfCharacter) {
  EXPECT_TRUE(valid_utf8(""));
  EXPECT_TRUE(valid_utf8("plain ASCII, longer than eight bytes"));
  EXPECT_TRUE(valid_utf8("Straße 東京 \xF0\x9F\x98\x80"));
  EXPECT_TRUE(valid_utf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"));  // beside the surrogates, and U+10FFFF
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  const std::string bad[] = {"\x80",
                             "\xC0\xAF",
                             "\xC1\xBF",
                             "\xE0\x9F\xBF",
                             "\xED\xA0\x80",
                             "\xF0\x8F\xBF\xBF",
                             "\xF4\x90\x80\x80",
                             "\xF5\x80\x80\x80",
                             "\xFF",
                             "\xC3",
                             "\xE2\x82",
                             "\xF0\x9F\x98"};
  for (const std::string& bytes : bad) {
    for (size_t before = 0; before <= 17; ++before) {
      const std::string text = std::string(before, 'a') + bytes;
      EXPECT_EQ(first_bad_utf8(text), before) << before;
      EXPECT_EQ(first_bad_utf8(text + "abcdefghij"), before) << before;
    }
  }
  EXPECT_EQ(first_bad_utf8("stra\xDF"
                           "e"),
            4u);  // Latin-1
}

TEST(Utf8, EveryCodePointRoundTrips) {
  std::u32string all;
  std::string bytes;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    all += c;
    append_utf8(bytes, c);
    EXPECT_EQ(to_utf8(c).size(), utf8_length(c));
  }
  EXPECT_TRUE(valid_utf8(bytes));
  EXPECT_TRUE(decode_utf8(bytes) == all);
  EXPECT_TRUE(encode_utf8(all) == bytes);
  EXPECT_EQ(count_characters(bytes), all.size());
  EXPECT_EQ(encode_utf8(U"aé中\U0001F389"), "a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x8e\x89");
}

TEST(Utf8, RepairedTextMatchesDecodingAndMapsToItsSource) {
  // The Unicode Standard's example of maximal subparts (3.9, table 3-8 and the following).
  const std::string bytes =
      "a\xF1\x80\x80\xE1\x80\xC2"
      "b\x80"
      "c\x80\xBF"
      "d";
  EXPECT_TRUE(decode_utf8(bytes) == U"a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  const RepairedText repaired = repair_utf8(bytes);
  EXPECT_TRUE(decode_utf8(repaired.text) == decode_utf8(bytes));
  EXPECT_EQ(repaired.sources, (std::vector<uint32_t>{0, 1, 1, 1,  4,  4,  4,  6,  6,  6,  7, 8,
                                                     8, 8, 9, 10, 10, 10, 11, 11, 11, 12, 13}));
}

TEST(Utf8, IteratesOverCharacters) {
  const std::string text = "aé中😀";
  size_t at = 0;
  std::u32string forth;
  while (at < text.size()) forth += next_character(text, at);
  EXPECT_TRUE(forth == U"aé中😀");
  EXPECT_EQ(previous_character(text, text.size()), 6u);
  EXPECT_EQ(previous_character(text, 6), 3u);
  EXPECT_EQ(previous_character(text, 1), 0u);
  EXPECT_FALSE(is_ascii(text));
  for (size_t i = 0; i < 20; ++i) {
    std::string ascii(20, 'x');
    EXPECT_TRUE(is_ascii(ascii));
    ascii[i] = '\x80';
    EXPECT_FALSE(is_ascii(ascii)) << i;
  }
}

}  // namespace
}  // namespace qkv

#include "qkv/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace qkv::text {
namespace {

TEST(Utf8, AcceptsEveryLengthOfCharacter) {
  EXPECT_TRUE(valid_utf8(""));
  EXPECT_TRUE(valid_utf8("plain ASCII, longer than eight bytes"));
  EXPECT_TRUE(valid_utf8("Straße 東京 \xF0\x9F\x98\x80"));
  EXPECT_TRUE(valid_utf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"));  // beside the surrogates, and U+10FFFF
}

TEST(Utf8, FindsTheFirstBadByteWhereverItStands) {
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

}  // namespace
}  // namespace qkv::text

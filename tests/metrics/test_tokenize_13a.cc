#include <gtest/gtest.h>

#include "golden.h"
#include "qkv/metrics/tokenize_13a.h"

namespace {

using Tokens = std::vector<std::string>;

TEST(Tokenize13a, EqualsSacrebleu) {
  const auto rows = golden::read("tokenize_13a.tsv");
  ASSERT_GT(rows.size(), 400u);
  for (const auto& row : rows) {
    const std::string expected = golden::unescape(row[1]);
    const Tokens tokens = expected.empty() ? Tokens() : golden::split(expected, ' ');
    EXPECT_EQ(qkv::metrics::tokenize_13a(golden::unescape(row[0])), tokens) << row[0];
  }
}

TEST(Tokenize13a, KeepsNumbersAndSetsPunctuationApart) {
  EXPECT_EQ(qkv::metrics::tokenize_13a("It's 1,000.5-mile (approx.), &amp;lt;ok&gt;."),
            (Tokens{"It's", "1,000.5", "-", "mile", "(", "approx", ".", ")", ",", "<", "ok", ">", "."}));
}

TEST(Tokenize13a, ReadsInvalidUtf8AndLongLines) {
  EXPECT_EQ(qkv::metrics::tokenize_13a("a\xff."), (Tokens{"a\xef\xbf\xbd", "."}));
  std::string line;
  for (int i = 0; i < 300000; ++i) line += "a.";
  EXPECT_EQ(qkv::metrics::tokenize_13a(line).size(), 600000u);
}

}  // namespace

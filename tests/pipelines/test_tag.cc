// Words of tagged texts.

#include "qkv/pipelines/tag.h"

#include <gtest/gtest.h>

namespace qkv::pipelines {
namespace {

// Tokens of these byte ranges, each with its number as label.
TaggedText tagged(const std::vector<std::pair<size_t, size_t>>& ranges) {
  TaggedText result;
  for (const auto& [begin, end] : ranges) {
    result.tokens.push_back(
        {.begin = begin, .end = end, .text = {}, .label = {std::to_string(result.tokens.size()), 0.5f}});
  }
  return result;
}

std::string as_text(const TaggedText& words) {
  EXPECT_TRUE(words.words);
  std::string text;
  for (const TaggedToken& word : words.tokens)
    text += "[" + word.text + "]" + std::to_string(word.begin) + "-" + std::to_string(word.end) + "/" +
            word.label.label;
  return text;
}

TEST(WordsOfATaggedText, HaveTheLabelsOfTheirFirstTokens) {
  EXPECT_EQ(as_text(words_of("don't  go\tnow", tagged({{0, 3}, {3, 4}, {4, 5}, {7, 9}, {10, 13}}))),
            "[don't]0-5/0[go]7-9/3[now]10-13/4");
  // The space before a word is in its token, or is a token.
  EXPECT_EQ(as_text(words_of("a man slept", tagged({{0, 1}, {1, 5}, {5, 6}, {6, 8}, {8, 11}}))),
            "[a]0-1/0[man]2-5/1[slept]6-11/3");
  EXPECT_EQ(as_text(words_of(" na\u00efve ", tagged({{1, 3}, {3, 7}}))), "[na\u00efve]1-7/0");
}

TEST(WordsOfATaggedText, WithoutATokenAreLeftOut) {
  EXPECT_EQ(as_text(words_of("a \u200b b", tagged({{0, 1}, {6, 7}}))), "[a]0-1/0[b]6-7/1");
  EXPECT_EQ(as_text(words_of("", tagged({}))), "");
  EXPECT_EQ(as_text(words_of("   ", tagged({{0, 0}}))), "");
  TaggedText failed;
  failed.error = "too long";
  EXPECT_EQ(words_of("a", failed).error, "too long");
}

}  // namespace
}  // namespace qkv::pipelines

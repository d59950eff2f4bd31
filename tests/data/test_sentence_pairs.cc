#include "qkv/data/sentence_pairs.h"

#include <gtest/gtest.h>

#include <array>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace qkv::data {
namespace {

using testing::message_of;
using testing::Scratch;

std::vector<SentencePair> read(const std::filesystem::path& path) {
  std::vector<SentencePair> pairs;
  SentencePairReader reader(path);
  for (SentencePair pair; reader.next(pair);) pairs.push_back(pair);
  return pairs;
}

TEST(SentencePairs, WithAndWithoutScores) {
  const Scratch scratch;
  const auto scored = read(scratch.write("a.tsv", "3.5\ta red dog\tthe dog\r\n-1e-1\tein Häuschen\tb"));
  ASSERT_EQ(scored.size(), 2u);
  EXPECT_EQ(scored[0].score, 3.5);
  EXPECT_EQ(scored[0].first, "a red dog");
  EXPECT_EQ(scored[0].second, "the dog");
  EXPECT_EQ(scored[1].score, -0.1);
  EXPECT_EQ(scored[1].first, "ein Häuschen");
  const auto plain = read(scratch.write("b.tsv", "5\t7\nc\td\n"));
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_FALSE(plain[0].score.has_value());
  EXPECT_EQ(plain[0].first, "5");
  EXPECT_TRUE(read(scratch.write("empty.tsv", "")).empty());
}

TEST(SentencePairs, RefusesTablesOfOtherPrograms) {
  const Scratch scratch;
  for (const auto& [name, content, message] :
       {std::array{"a.csv", "one,two\n", "a.csv: expected a pair of sentences"},
        std::array{"b.tsv", "sentence1\tsentence2\na\tb\n", "b.tsv:1: expected a pair of sentences"},
        std::array{"c.tsv", "Score\tText\tText2\n1\ta\tb\n",
                   "found the names of columns; remove the line"}}) {
    const std::string found = message_of<DataError>([&] { read(scratch.write(name, content)); });
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
  EXPECT_EQ(read(scratch.write("d.csv", "a\tb\nsentence1\tsentence2\n")).size(), 2u);
}

TEST(SentencePairs, ErrorsNameFileAndLine) {
  const Scratch scratch;
  const auto refuse = [&](const std::string& text, const std::string& part) {
    const std::string message = message_of<DataError>([&] { read(scratch.write("pairs.tsv", text)); });
    EXPECT_NE(message.find("pairs.tsv"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refuse("one\n",
         ":1: expected a pair of sentences, with or without a score before it, separated by tabs, found 1");
  refuse("1\ta\tb\tc\n", ":1: expected a pair of sentences");
  refuse("1\ta\tb\na\tb\n",
         ":2: expected a score and two sentences, as in the first line, separated by tabs, found 2");
  refuse("a\tb\n1\ta\tb\n", ":2: expected two sentences");
  refuse("a\tb\n\n", ":2: expected two sentences");
  for (const char* bad : {"high", "1x", "", "nan", "inf", "1e999", " 1"})
    refuse(std::string("1\ta\tb\n") + bad + "\ta\tb\n",
           std::string(":2: expected a number as the score, found '") + bad);
  refuse("1\ta\t \n", ":1: expected a sentence, found none");
  refuse("1\t\tb\n", ":1: expected a sentence, found none");
  refuse("1\ta\tb\n1\ta\xff\tb\n", "line 2, byte 4: expected UTF-8");
  EXPECT_THROW(read(scratch / "missing.tsv"), IoError);
}

}  // namespace
}  // namespace qkv::data

#include "apps/number_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "qkv/base/error.h"
#include "qkv/text/lines.h"
#include "tests/support/scratch.h"

namespace qkv::apps {
namespace {

TEST(NumberWords, AreCorrectInBothLanguages) {
  const struct {
    int number;
    const char *english, *german;
  } cases[] = {
      {0, "zero", "null"},
      {1, "one", "eins"},
      {7, "seven", "sieben"},
      {11, "eleven", "elf"},
      {12, "twelve", "zwölf"},
      {16, "sixteen", "sechzehn"},
      {17, "seventeen", "siebzehn"},
      {20, "twenty", "zwanzig"},
      {21, "twenty-one", "einundzwanzig"},
      {30, "thirty", "dreißig"},
      {66, "sixty-six", "sechsundsechzig"},
      {77, "seventy-seven", "siebenundsiebzig"},
      {100, "one hundred", "einhundert"},
      {101, "one hundred one", "einhunderteins"},
      {111, "one hundred eleven", "einhundertelf"},
      {241, "two hundred forty-one", "zweihunderteinundvierzig"},
      {1000, "one thousand", "eintausend"},
      {1001, "one thousand one", "eintausendeins"},
      {2530, "two thousand five hundred thirty", "zweitausendfünfhundertdreißig"},
      {9999, "nine thousand nine hundred ninety-nine", "neuntausendneunhundertneunundneunzig"},
      {21000, "twenty-one thousand", "einundzwanzigtausend"},
      {101101, "one hundred one thousand one hundred one", "einhunderteintausendeinhunderteins"},
      {616017, "six hundred sixteen thousand seventeen", "sechshundertsechzehntausendsiebzehn"},
      {999999, "nine hundred ninety-nine thousand nine hundred ninety-nine",
       "neunhundertneunundneunzigtausendneunhundertneunundneunzig"},
  };
  for (const auto& [number, english, german] : cases) {
    EXPECT_EQ(english_number(number), english);
    EXPECT_EQ(german_number(number), german);
  }
  EXPECT_THROW(english_number(-1), UsageError);
  EXPECT_THROW(german_number(1'000'000), UsageError);
}

TEST(NumberWords, NoTwoNumbersShareAName) {
  std::set<std::string> english, german;
  for (int number = 0; number < 100'000; number += number < 20'000 ? 1 : 37) {
    EXPECT_TRUE(english.insert(english_number(number)).second) << number;
    EXPECT_TRUE(german.insert(german_number(number)).second) << number;
  }
}

TEST(NumberSplit, IsAPartitionBySeed) {
  const NumberSplitOptions options{
      .largest = 2999, .held_out = 300, .validation = 100, .always_train = 21, .seed = 5};
  const NumberSplit split = split_numbers(options);
  EXPECT_EQ(split.held_out.size(), 300u);
  EXPECT_EQ(split.validation.size(), 100u);
  EXPECT_EQ(split.train.size(), 2600u);
  std::set<int> all(split.train.begin(), split.train.end());
  all.insert(split.validation.begin(), split.validation.end());
  all.insert(split.held_out.begin(), split.held_out.end());
  EXPECT_EQ(all.size(), 3000u);
  EXPECT_EQ(*all.rbegin(), 2999);
  EXPECT_GE(*std::min_element(split.held_out.begin(), split.held_out.end()), 21);
  EXPECT_GE(*std::min_element(split.validation.begin(), split.validation.end()), 21);
  EXPECT_FALSE(std::is_sorted(split.train.begin(), split.train.end()));

  EXPECT_EQ(split_numbers(options).held_out, split.held_out);
  NumberSplitOptions other = options;
  other.seed = 6;
  EXPECT_NE(split_numbers(other).held_out, split.held_out);

  EXPECT_THROW(split_numbers({.largest = 1'000'000}), UsageError);
  EXPECT_THROW(split_numbers({.largest = 99, .held_out = 1}), UsageError);
  EXPECT_THROW(split_numbers({.largest = 99, .held_out = 100, .always_train = 0}), UsageError);
  EXPECT_THROW(split_numbers({.held_out = -1}), UsageError);
  EXPECT_THROW(split_numbers({.validation = -1}), UsageError);
  EXPECT_THROW(split_numbers({.largest = 99, .held_out = 60, .validation = 60, .always_train = 0}),
               UsageError);
}

TEST(NumberSplit, WritesAParallelCorpus) {
  const testing::Scratch folder;
  const std::vector<int> numbers = {241, 0, 9001};
  write_number_corpus(numbers, folder / "n.en", folder / "n.de");
  text::LineReader english(folder / "n.en"), german(folder / "n.de");
  std::string line;
  for (const int number : numbers) {
    ASSERT_TRUE(english.next(line));
    EXPECT_EQ(line, english_number(number));
    ASSERT_TRUE(german.next(line));
    EXPECT_EQ(line, german_number(number));
  }
  EXPECT_FALSE(english.next(line));
  EXPECT_FALSE(german.next(line));
}

}  // namespace
}  // namespace qkv::apps

#include "qkv/data/corpus.h"

#include <gtest/gtest.h>

#include <vector>

#include "qkv/base/error.h"
#include "tests/data/numbers.h"

namespace qkv::data {
namespace {

using ::qkv::testing::contains;
using ::qkv::testing::message_of;
using ::qkv::testing::Scratch;

struct Corpus {
  Corpus(const std::string& source, const std::string& target)
      : files{folder.write("text.en", source), folder.write("text.de", target)} {}

  // All kept pairs, "source|target", counting bytes as tokens.
  std::vector<std::string> read(const CorpusOptions& options = {}) {
    ParallelReader reader(files, options);
    std::vector<std::string> pairs;
    for (LinePair pair; reader.next(pair);) {
      const bool kept = reader.keep(pair, static_cast<int64_t>(pair.source.size()),
                                    static_cast<int64_t>(pair.target.size()));
      if (kept) pairs.push_back(std::to_string(pair.line) + ":" + pair.source + "|" + pair.target);
    }
    report = reader.report();
    return pairs;
  }

  Scratch folder;
  CorpusFiles files;
  CorpusReport report;
};

TEST(ParallelReader, KeepsPairsAndCountsWhatItSkips) {
  Corpus corpus("one\r\n\nthree\nfour\n\xFF\nsix sixes\n", "eins\nzwei\ndrei\n \t\nfünf\nsechs\n");
  const auto pairs = corpus.read({.max_length = 5, .bad_utf8 = OnBadLine::skip});
  EXPECT_EQ(pairs, (std::vector<std::string>{"1:one|eins", "3:three|drei"}));
  EXPECT_EQ(corpus.report, (CorpusReport{.pairs = 2,
                                         .skipped_empty = 2,
                                         .skipped_long = 1,
                                         .skipped_bad_utf8 = 1,
                                         .source_tokens = 8,
                                         .target_tokens = 8}));
  EXPECT_EQ(corpus.report.lines(), 6);
  EXPECT_EQ(corpus.report.summary(),
            "2 pairs (4 skipped: 2 empty, 1 over-long, 1 not UTF-8), 8 source and 8 target tokens");
  EXPECT_EQ((CorpusReport{.pairs = 1, .source_tokens = 3, .target_tokens = 2}).summary(),
            "1 pair, 3 source and 2 target tokens");
}

TEST(ParallelReader, FailsWhereItIsToldTo) {
  Corpus bad("one\ntwo\n", "eins\nzw\xE4i\n");
  const std::string utf8 = message_of<DataError>([&] { bad.read(); });
  EXPECT_TRUE(contains(utf8, "text.de, line 2, byte 3")) << utf8;
  EXPECT_TRUE(contains(utf8, "0xE4")) << utf8;

  Corpus empty("one\ntwo\n", "eins\n\n");
  EXPECT_EQ(empty.read().size(), 1u);
  const std::string blank = message_of<DataError>([&] { empty.read({.empty = OnBadLine::fail}); });
  EXPECT_TRUE(contains(blank, "text.de, line 2")) << blank;

  Corpus lengthy("one\ntwo\n", "eins\nzweiundzwanzig\n");
  EXPECT_EQ(lengthy.read({.max_length = 13}).size(), 1u);
  EXPECT_EQ(lengthy.read({.max_length = 14, .too_long = OnBadLine::fail}).size(), 2u);
  const std::string length =
      message_of<DataError>([&] { lengthy.read({.max_length = 13, .too_long = OnBadLine::fail}); });
  EXPECT_TRUE(contains(length, "text.de, line 2: expected at most 13 tokens, found 14")) << length;
  EXPECT_THROW(lengthy.read({.max_length = 0}), UsageError);
}

TEST(ParallelReader, UnequalFilesAreNamedWithTheirCounts) {
  for (const bool source_longer : {true, false}) {
    const std::string three = "a\nb\nc\n", five = "a\nb\nc\nd\ne\n";
    Corpus corpus(source_longer ? five : three, source_longer ? three : five);
    const std::string message = message_of<DataError>([&] { corpus.read(); });
    EXPECT_TRUE(contains(message, source_longer ? "found 5 in " : "found 3 in ")) << message;
    EXPECT_TRUE(contains(message, source_longer ? "and 3 in " : "and 5 in ")) << message;
    EXPECT_TRUE(contains(message, "text.en") && contains(message, "text.de")) << message;
  }
  Corpus missing("a\n", "b\n");
  missing.files.target = missing.folder / "nowhere";
  EXPECT_TRUE(contains(message_of<IoError>([&] { missing.read(); }), "nowhere"));
}

}  // namespace
}  // namespace qkv::data

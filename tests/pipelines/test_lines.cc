#include "qkv/pipelines/lines.h"

#include <gtest/gtest.h>

#include <cctype>
#include <sstream>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

struct Upper {
  std::string text, error;
};

// A pipeline that rejects empty texts.
std::vector<Upper> upper(std::span<const std::string> texts) {
  std::vector<Upper> results;
  for (const std::string& text : texts) {
    std::string letters = text;
    for (char& c : letters) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    results.push_back({letters, text.empty() ? "expected text, found none" : ""});
  }
  return results;
}

struct Seen {
  std::vector<std::string> lines;  // "3 TEXT" or "3 !error"
  std::vector<int64_t> numbers;    // line numbers passed to the pipeline
  LineCounts counts;
  int flushes = 0;
};

Seen run(LineReader reader) {
  Seen seen;
  seen.counts = for_each_line(
      std::move(reader),
      [&](std::span<const std::string> texts, std::span<const int64_t> numbers) {
        seen.numbers.insert(seen.numbers.end(), numbers.begin(), numbers.end());
        return upper(texts);
      },
      [&](const Line& line, const Upper& result) {
        seen.lines.push_back(concat(line.number, " ", line.text, " ",
                                    result.error.empty() ? result.text : "!" + result.error));
      },
      [&] { ++seen.flushes; });
  return seen;
}

Seen run(const std::string& input, const LineOptions& options) {
  std::istringstream in(input);
  return run(LineReader(in, options));
}

TEST(Lines, SameResultsForAnyChunks) {
  const std::string input = "one\r\n\ntwo\nfar too long\nthree";
  const std::vector<std::string> expected = {"1 one ONE", "2  !expected text, found none", "3 two TWO",
                                             "4  !expected at most 5 bytes, found 12", "5 three THREE"};
  for (const LineOptions& options :
       {LineOptions{.max_line_bytes = 5}, LineOptions{.chunk_lines = 1, .max_line_bytes = 5},
        LineOptions{.chunk_lines = 2, .max_line_bytes = 5},
        LineOptions{.chunk_bytes = 4, .max_line_bytes = 5}}) {
    const Seen seen = run(input, options);
    EXPECT_EQ(seen.lines, expected);
    EXPECT_EQ(seen.numbers, (std::vector<int64_t>{1, 2, 3, 5}));
    EXPECT_EQ(seen.counts.lines, 5);
    EXPECT_EQ(seen.counts.errors, 2);
    EXPECT_EQ(summary(seen.counts), "2 of 5 lines failed");
  }
  EXPECT_EQ(run(input, {.chunk_lines = 2}).flushes, 3);
}

TEST(Lines, MayBeAListOfTexts) {
  const Seen seen =
      run(LineReader({"one\ntwo", "", "far too long\r"}, {.chunk_lines = 2, .max_line_bytes = 9}));
  EXPECT_EQ(seen.lines, (std::vector<std::string>{"1 one\ntwo ONE\nTWO", "2  !expected text, found none",
                                                  "3  !expected at most 9 bytes, found 13"}));
  EXPECT_EQ(seen.flushes, 2);
}

TEST(Lines, NoLinesGiveNoChunk) {
  EXPECT_EQ(run("", {}).flushes, 0);
  EXPECT_EQ(run("\n", {}).counts.errors, 1);
  EXPECT_EQ(summary({.lines = 1, .errors = 1}), "1 of 1 line failed");
}

TEST(Lines, BadOptionsAreErrors) {
  using qkv::testing::message_of;
  EXPECT_EQ(message_of<UsageError>([] { run("a", {.chunk_lines = 0}); }),
            "chunk_lines: expected at least 1, found 0");
  EXPECT_EQ(message_of<UsageError>([] { run("a", {.chunk_bytes = -1}); }),
            "chunk_bytes: expected at least 1, found -1");
  EXPECT_EQ(message_of<UsageError>([] { run("a", {.max_line_bytes = 0}); }),
            "max_line_bytes: expected at least 1, found 0");
}

}  // namespace
}  // namespace qkv::pipelines

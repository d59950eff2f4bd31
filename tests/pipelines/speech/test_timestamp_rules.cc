// Rules of timestamps on scores made by hand, and segments of tokens made by hand.

#include "qkv/pipelines/speech/timestamp_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/pipelines/speech/segments.h"

namespace qkv::pipelines {
namespace {

using search::NextTokens;

// Texts are 0 to 6, timestamps 16 to 21.
const models::SpeechTokens kTokens{.start = 8,
                                   .transcribe = 12,
                                   .translate = 11,
                                   .no_timestamps = 15,
                                   .previous = 13,
                                   .no_speech = 14,
                                   .eos = 7,
                                   .languages = {{"en", 9}, {"de", 10}}};
constexpr int32_t kFirst = 16, kEnd = 22;

using IdList = std::vector<int32_t>;

// All timestamps together are less likely than any other token.
std::vector<float> of_texts() {
  std::vector<float> scores(kEnd, -1);
  std::fill(scores.begin() + kFirst, scores.end(), -20.0f);
  scores[15] = 5;
  return scores;
}

// The tokens that may follow this output, whose scores must be as before.
IdList allowed_after(const IdList& output, std::optional<int32_t> max_first = {},
                     const std::vector<float>& scores = of_texts()) {
  IdList history{8, 9, 12};
  history.insert(history.end(), output.begin(), output.end());
  std::vector<float> changed = scores;
  NextTokens next(changed);
  TimestampRules(kTokens, max_first).apply({.history = history, .new_tokens = std::ssize(output)}, next);
  IdList allowed;
  for (int32_t id = 0; id < kEnd; ++id) {
    if (!next.allows(id)) continue;
    allowed.push_back(id);
    EXPECT_EQ(next[id], scores[static_cast<size_t>(id)]);
  }
  return allowed;
}

// From `begin` to before `end`, and from `more` to before kEnd.
IdList ids(int32_t begin, int32_t end, int32_t more = kEnd) {
  IdList all;
  for (int32_t id = begin; id < end; ++id) all.push_back(id);
  for (int32_t id = more; id < kEnd; ++id) all.push_back(id);
  return all;
}

TEST(TimestampRules, ATimestampComesFirst) {
  EXPECT_EQ(allowed_after({}), ids(16, 22));
  EXPECT_EQ(allowed_after({}, 3), ids(16, 20));
  EXPECT_EQ(allowed_after({}, 0), ids(16, 17));
  EXPECT_EQ(allowed_after({}, 1 << 20), ids(16, 22));
  // Later ones may be larger.
  EXPECT_EQ(allowed_after({16, 3}, 0), ids(0, 15, 17));
}

TEST(TimestampRules, TheyComeInPairs) {
  // The first has none before it, so text follows.
  EXPECT_EQ(allowed_after({17}), ids(0, 15));
  // After text a segment may end, or the output, but no other text follow.
  EXPECT_EQ(allowed_after({16, 3, 18}), ids(7, 15, 18));
  EXPECT_EQ(allowed_after({16, 3, 18, 18}), ids(0, 15));
  EXPECT_EQ(allowed_after({16, 3, 18, 19}), ids(0, 15));
}

TEST(TimestampRules, TheyDoNotDecrease) {
  EXPECT_EQ(allowed_after({17, 3}), ids(0, 15, 18)) << "a segment is not empty";
  EXPECT_EQ(allowed_after({17, 3, 4, 2}), ids(0, 15, 18));
  EXPECT_EQ(allowed_after({16, 3, 18, 19, 4}), ids(0, 15, 20));
  EXPECT_EQ(allowed_after({16, 3, 20}), ids(7, 15, 20)) << "the next segment may begin there";
  EXPECT_EQ(allowed_after({16, 3, 21}), ids(7, 15, 21));
  EXPECT_EQ(allowed_after({16, 3, 21, 21, 4}), ids(0, 15));
}

TEST(TimestampRules, TheyComeWhenTheyAreMoreLikelyTogether) {
  const IdList output{16, 3};  // then 17 to 21 are possible
  for (const float shift : {0.0f, 300.0f, -300.0f}) {
    std::vector<float> scores(kEnd, -9 + shift);
    scores[4] = -1 + shift;
    scores[15] = 2 + shift;  // <|notimestamps|> does not count
    scores[16] = 2 + shift;  // nor does one that is forbidden
    const float just_more = -1 - std::log(5.0f) + 0.01f + shift;
    std::fill(scores.begin() + 17, scores.end(), just_more);
    EXPECT_EQ(allowed_after(output, {}, scores), ids(17, 22)) << shift;
    std::fill(scores.begin() + 17, scores.end(), just_more - 0.02f);
    EXPECT_EQ(allowed_after(output, {}, scores), ids(0, 15, 17)) << shift;
    // The end is a token like others.
    scores[4] = -9 + shift;
    EXPECT_EQ(allowed_after(output, {}, scores), ids(17, 22)) << shift;
    scores[7] = -1 + shift;
    EXPECT_EQ(allowed_after(output, {}, scores), ids(0, 15, 17)) << shift;
  }
  // After a pair none is possible.
  std::vector<float> scores(kEnd, -9);
  std::fill(scores.begin() + kFirst, scores.end(), 9.0f);
  EXPECT_EQ(allowed_after({16, 3, 18, 18}, {}, scores), ids(0, 15));
}

TEST(TimestampRules, ForbiddenTokensStayForbidden) {
  std::vector<float> scores = of_texts();
  scores[4] = scores[19] = search::kImpossible;
  IdList expected = ids(0, 15, 17);
  std::erase(expected, 4);
  std::erase(expected, 19);
  EXPECT_EQ(allowed_after({16, 3}, {}, scores), expected);
}

TEST(LanguageChoice, NotesProbabilitiesAmongLanguages) {
  std::vector<float> scores(kEnd, 50);
  scores[9] = 101;
  scores[10] = 102;
  const LanguageChoice choice(kTokens);
  EXPECT_TRUE(choice.probabilities().empty());
  NextTokens next(scores);
  choice.apply({}, next);
  for (int32_t id = 0; id < kEnd; ++id) EXPECT_EQ(next.allows(id), id == 9 || id == 10) << id;
  EXPECT_EQ(next[10], 102);
  ASSERT_EQ(choice.probabilities().size(), 2u);
  EXPECT_NEAR(choice.probabilities()[0], 1 / (1 + std::exp(1)), 1e-6);
  EXPECT_NEAR(choice.probabilities()[1], 1 / (1 + std::exp(-1)), 1e-6);
}

struct Part {
  int64_t begin, end;
  IdList ids;
  friend bool operator==(const Part&, const Part&) = default;
  friend void PrintTo(const Part& part, std::ostream* out) {
    *out << part.begin << "-" << part.end << ":";
    for (const int32_t id : part.ids) *out << " " << id;
  }
};

// The segments of an output in a window of 5 steps, or `length`.
std::vector<Part> parts_of(const IdList& output, int64_t advance, int64_t length = 5) {
  const WindowSegments found = split_segments(output, kTokens, length);
  EXPECT_EQ(found.advance, advance);
  std::vector<Part> parts;
  for (const TokenSegment& one : found.segments) parts.push_back({one.begin, one.end, one.ids});
  return parts;
}

using Parts = std::vector<Part>;

TEST(SplitSegments, AreOneWithoutAPair) {
  EXPECT_EQ(parts_of({3, 4}, 5), (Parts{{0, 5, {3, 4}}}));
  EXPECT_EQ(parts_of({}, 5), (Parts{{0, 5, {}}}));
  EXPECT_EQ(parts_of({16, 3}, 5), (Parts{{0, 5, {16, 3}}})) << "0 is no end";
  EXPECT_EQ(parts_of({16, 3, 19}, 5), (Parts{{0, 3, {16, 3, 19}}}));
  EXPECT_EQ(parts_of({18, 3, 4}, 5), (Parts{{0, 2, {18, 3, 4}}})) << "as in transformers";
  EXPECT_EQ(parts_of({18}, 5), (Parts{{0, 2, {18}}}));
}

TEST(SplitSegments, EndAtPairs) {
  EXPECT_EQ(parts_of({16, 3, 18, 18}, 2), (Parts{{0, 2, {16, 3, 18}}}));
  // What follows the last pair is left to the next window.
  EXPECT_EQ(parts_of({16, 3, 18, 19, 4, 5}, 2), (Parts{{0, 2, {16, 3, 18}}}));
  EXPECT_EQ(parts_of({16, 3, 17, 18, 4, 5, 19, 20, 6}, 3),
            (Parts{{0, 1, {16, 3, 17}}, {2, 3, {18, 4, 5, 19}}}));
}

TEST(SplitSegments, ASingleTimestampEndsTheLast) {
  EXPECT_EQ(parts_of({16, 3, 17, 18, 4, 20}, 5), (Parts{{0, 1, {16, 3, 17}}, {2, 4, {18, 4, 20}}}));
  EXPECT_EQ(parts_of({17, 3, 18, 18, 4, 5, 21}, 5), (Parts{{1, 2, {17, 3, 18}}, {2, 5, {18, 4, 5, 21}}}));
}

TEST(SplitSegments, MayHaveTimestampsAlone) {
  EXPECT_EQ(parts_of({17, 18}, 1), (Parts{{1, 1, {17}}}));
  EXPECT_EQ(parts_of({17, 18, 19}, 2), (Parts{{1, 1, {17}}, {2, 2, {18}}}));
}

// The caller cuts them at the end of the audio.
TEST(SplitSegments, MayEndBehindTheAudio) {
  EXPECT_EQ(parts_of({16, 3, 20, 20}, 4, 2), (Parts{{0, 4, {16, 3, 20}}}));
  EXPECT_EQ(parts_of({16, 3, 21}, 2, 2), (Parts{{0, 5, {16, 3, 21}}}));
}

}  // namespace
}  // namespace qkv::pipelines

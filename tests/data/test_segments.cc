#include "qkv/data/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "tests/data/documents.h"

namespace qkv::data {
namespace {

using testing::counted_documents;
using testing::expect_contains;
using testing::expect_throw;
using testing::message_of;

// 40 documents of 30 to 60 sentences of 3 to 20 tokens.
SentenceDocuments many_documents() {
  RandomStream random(3);
  std::vector<std::vector<int64_t>> lengths(40);
  for (std::vector<int64_t>& document : lengths) {
    document.resize(30 + random.below(31));
    for (int64_t& tokens : document) tokens = 3 + static_cast<int64_t>(random.below(18));
  }
  return counted_documents(lengths);
}

int64_t document_of(const SentenceDocuments& documents, int64_t token) {
  const auto sentence =
      std::ranges::upper_bound(documents.sentence_begins, token) - documents.sentence_begins.begin() - 1;
  return std::ranges::upper_bound(documents.document_begins, sentence) - documents.document_begins.begin() -
         1;
}

TEST(Segments, PairsAreHalfNextAndHalfFromOtherDocuments) {
  const SentenceDocuments documents = many_documents();
  const SegmentOptions options{.max_length = 128};
  int64_t pairs = 0, next = 0, brief = 0;
  std::set<int64_t> others;
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    for (const Segments& one : make_segments(documents, options, 5, epoch)) {
      ASSERT_GE(one.first_tokens, 1);
      ASSERT_GE(one.second_tokens, 1);
      ASSERT_LE(one.tokens() + 3, 128);
      const int64_t first = document_of(documents, one.first), second = document_of(documents, one.second);
      // A range stays within its document.
      ASSERT_EQ(first, document_of(documents, one.first + one.first_tokens - 1));
      ASSERT_EQ(second, document_of(documents, one.second + one.second_tokens - 1));
      ASSERT_EQ(first == second, one.follows);
      if (!one.follows && first == 7) others.insert(second);
      ++pairs;
      next += one.follows ? 1 : 0;
      brief += one.tokens() < 90 ? 1 : 0;
    }
  }
  ASSERT_GT(pairs, 2000);
  const double share = static_cast<double>(next) / static_cast<double>(pairs);
  EXPECT_NEAR(share, 0.5, 0.035);  // slightly below: a document's last sentence has no continuation
  // Two thirds of a tenth, and ends of documents, of which each has about five pairs.
  EXPECT_NEAR(static_cast<double>(brief) / static_cast<double>(pairs), 0.16, 0.04);
  EXPECT_GT(others.size(), 15u);
}

TEST(Segments, AContinuationFollowsUnlessCut) {
  const SentenceDocuments documents = many_documents();
  int64_t adjacent = 0, following = 0;
  for (const Segments& one : make_segments(documents, {.max_length = 64, .short_share = 0}, 5, 0)) {
    if (!one.follows) continue;
    ASSERT_GE(one.second, one.first + one.first_tokens);
    ++following;
    adjacent += one.second == one.first + one.first_tokens ? 1 : 0;
  }
  EXPECT_GT(following, 100);
  EXPECT_GT(adjacent, 20);
}

// Uncut pairs cover every token: in a first segment or in a second one that follows.
TEST(Segments, PairsCoverTheText) {
  const SentenceDocuments documents = many_documents();
  for (const int64_t length : {40, 512}) {
    std::vector<bool> covered(documents.ids.size());
    for (const Segments& one : make_segments(documents, {.max_length = length}, 11, 2)) {
      for (int64_t i = 0; i < one.first_tokens; ++i) covered[static_cast<size_t>(one.first + i)] = true;
      for (int64_t i = 0; one.follows && i < one.second_tokens; ++i)
        covered[static_cast<size_t>(one.second + i)] = true;
    }
    const auto share =
        static_cast<double>(std::ranges::count(covered, true)) / static_cast<double>(covered.size());
    EXPECT_GT(share, length == 40 ? 0.7 : 0.95);  // the rest was cut off
  }
}

// The first segment ends with the sentence, of at most 20 tokens, that reaches half of the length, unless the
// document ends.
TEST(Segments, HalvesDivideNearTheMiddle) {
  const SentenceDocuments documents = many_documents();
  const auto near_share = [&](bool halves) {
    int64_t pairs = 0, near = 0;
    for (const Segments& one :
         make_segments(documents, {.max_length = 203, .short_share = 0, .halves = halves}, 5, 0)) {
      if (one.tokens() < 150) continue;  // the document ended
      ++pairs;
      near += std::abs(one.first_tokens - 100) <= 20 ? 1 : 0;
      EXPECT_LE(one.first_tokens, halves ? 120 : 200);
    }
    EXPECT_GT(pairs, 100);
    return static_cast<double>(near) / static_cast<double>(pairs);
  };
  EXPECT_GT(near_share(true), 0.8);
  EXPECT_LT(near_share(false), 0.4);
}

TEST(Segments, NeighboursBoundTheOtherDocument) {
  const SentenceDocuments documents = many_documents();
  std::set<int64_t> distances;
  for (const Segments& one : make_segments(documents, {.max_length = 64, .neighbours = 2}, 5, 0)) {
    if (!one.follows)
      distances.insert(document_of(documents, one.second) - document_of(documents, one.first));
  }
  EXPECT_EQ(distances, (std::set<int64_t>{-2, -1, 1, 2}));
}

TEST(Segments, EpochsDifferAndRepeat) {
  const SentenceDocuments documents = many_documents();
  for (const bool pairs : {true, false}) {
    const SegmentOptions options{.max_length = 64, .pairs = pairs};
    const auto first = make_segments(documents, options, 5, 0);
    EXPECT_EQ(first, make_segments(documents, options, 5, 0));
    EXPECT_NE(first, make_segments(documents, options, 5, 1));
    EXPECT_NE(first, make_segments(documents, options, 6, 0));
  }
}

// Without pairs: every sentence once, whole, as many as fit, within a document.
TEST(Segments, PacksWholeSentencesOfADocument) {
  const SentenceDocuments documents = many_documents();
  int64_t at = 0, full = 0;
  const auto segments = make_segments(documents, {.max_length = 66, .pairs = false}, 5, 0);
  for (const Segments& one : segments) {
    ASSERT_EQ(one.first, at);
    ASSERT_EQ(one.second_tokens, 0);
    ASSERT_LE(one.first_tokens, 64);
    at += one.first_tokens;
    ASSERT_TRUE(std::ranges::binary_search(documents.sentence_begins, at));
    ASSERT_EQ(document_of(documents, one.first), document_of(documents, at - 1));
    full += one.first_tokens > 64 - 20 ? 1 : 0;
  }
  EXPECT_EQ(at, documents.tokens());
  EXPECT_GT(full, std::ssize(segments) * 3 / 4);
}

TEST(Segments, RefusesWhatCannotBe) {
  const SentenceDocuments one = counted_documents({{4, 5, 6}});
  expect_throw<DataError>("two or more documents, found 1", [&] { make_segments(one, {}, 1, 0); });
  EXPECT_EQ(make_segments(one, {.pairs = false}, 1, 0).size(), 1u);
  expect_throw<UsageError>("train.max_length: expected 5 or more tokens, found 4",
                           [&] { make_segments(one, {.max_length = 4}, 1, 0); });
  expect_throw<UsageError>("train.short_share", [&] { make_segments(one, {.short_share = 1.5f}, 1, 0); });
}

TEST(LengthWarmup, IsTextAndBack) {
  LengthWarmup warmup;
  parse_field("field", "16:600,32:200", warmup);
  EXPECT_EQ(warmup.stages, (std::vector<LengthStage>{{16, 600}, {32, 200}}));
  EXPECT_EQ(field_text(warmup), "16:600,32:200");
  for (const char* text : {"16", "16:", ":5", "16:5,", ",16:5", "16:5,,32:5", "16:5:3", "16:x", "16: 5"}) {
    const std::string message = message_of<UsageError>([&] { parse_field("field", text, warmup); });
    EXPECT_NE(message.find("field: expected LENGTH:BATCHES"), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find(text), std::string::npos) << message;
  }
  EXPECT_EQ(field_text(warmup), "16:600,32:200") << "an error changes nothing";
  parse_field("field", "", warmup);
  EXPECT_TRUE(warmup.stages.empty());
  EXPECT_EQ(field_text(warmup), "");

  const auto refused = [](std::vector<LengthStage> stages) {
    return message_of<UsageError>([&] { LengthWarmup{std::move(stages)}.validate(3, 128); });
  };
  EXPECT_NE(refused({{2, 5}}).find("3 to 127 (train.max_length is 128), found 2"), std::string::npos);
  EXPECT_NE(refused({{128, 5}}).find("found 128"), std::string::npos);
  EXPECT_NE(refused({{16, 5}, {16, 5}}).find("17 to 127"), std::string::npos);
  EXPECT_NE(refused({{16, 0}}).find("1 or more batches of length 16, found 0"), std::string::npos);
}

// The first epoch: a sample of short segments without pairs, then the pairs of an epoch without a warm-up.
TEST(SegmentCursor, BeginsWithShortInputs) {
  const SentenceDocuments documents = many_documents();
  const SegmentOptions options{.max_length = 64};
  SegmentCursor plain(documents, options, {}, 1024, 9);
  const int64_t batches = plain.batches_in_epoch();
  EXPECT_EQ(plain.warmup_batches(), 0);
  constexpr int64_t kMany = 100'000;  // more than there are
  SegmentCursor cursor(documents, options, {{{8, 5}, {16, kMany}}}, 1024, 9);
  const int64_t warmup = cursor.warmup_batches();
  EXPECT_EQ(cursor.batches_in_epoch(), warmup + batches);
  std::vector<int64_t> inputs(2);  // of each stage
  for (int64_t i = 0; i < warmup; ++i) {
    EXPECT_EQ(cursor.state(), (CursorState{0, i}));
    const SegmentBatch batch = cursor.next();
    EXPECT_EQ(batch.epoch, 0);
    EXPECT_FALSE(batch.pairs);
    const size_t stage = i < 5 ? 0 : 1;
    EXPECT_EQ(batch.positions, stage == 0 ? 0 : 64);
    for (const Segments& one : batch.segments) {
      ASSERT_LE(one.first_tokens + 2, stage == 0 ? 8 : 16);
      ASSERT_EQ(one.second_tokens, 0);
      ++inputs[stage];
    }
  }
  EXPECT_GT(inputs[0], 4 * 1024 / 8);  // one of five may be the smaller last batch
  EXPECT_EQ(inputs[1], std::ssize(make_segments(documents, {.max_length = 16, .pairs = false}, 9, 0)));
  while (cursor.state().epoch < 2) {
    const SegmentBatch batch = cursor.next(), other = plain.next();
    ASSERT_TRUE(batch.pairs);
    ASSERT_EQ(batch.positions, 0);
    ASSERT_EQ(batch.epoch, other.epoch);
    ASSERT_EQ(batch.segments, other.segments);
  }
  EXPECT_EQ(cursor.state(), plain.state());
  EXPECT_EQ(cursor.warmup_batches(), 0) << "not in the third epoch";
}

TEST(SegmentCursor, LongerStagesHavePairs) {
  const SentenceDocuments documents = many_documents();
  const SegmentOptions options{.max_length = 64, .pairs_from = 32};
  SegmentCursor cursor(documents, options, {{{8, 2}, {16, 2}, {32, 3}, {48, 3}}}, 1024, 9);
  const std::vector<int64_t> lengths{8, 8, 16, 16, 32, 32, 32, 48, 48, 48, 64};
  for (const int64_t length : lengths) {
    const SegmentBatch batch = cursor.next();
    EXPECT_EQ(batch.pairs, length >= 32) << length;
    EXPECT_EQ(batch.positions, length == 16 ? 64 : 0) << length;
    int64_t longest = 0, second = 0;
    for (const Segments& one : batch.segments) {
      longest = std::max(longest, one.tokens() + (batch.pairs ? 3 : 2));
      second += one.second_tokens;
    }
    EXPECT_GT(longest, length / 2);
    EXPECT_LE(longest, length);
    EXPECT_EQ(second > 0, batch.pairs) << length;
  }
  // The stage's pairs are those of an epoch with its length.
  SegmentCursor from(documents, options, {{{8, 2}, {32, 3}}}, 1024, 9, {0, 2});
  const auto of_length = make_segments(documents, {.max_length = 32}, 9, 0);
  const SegmentBatch batch = from.next();
  for (size_t i = 0; i < batch.items.size(); ++i)
    EXPECT_EQ(batch.segments[i], of_length[static_cast<size_t>(batch.items[i])]);

  const auto refused = [&](const SegmentOptions& wrong) {
    return message_of<UsageError>([&] { make_segments(documents, wrong, 1, 0); });
  };
  expect_contains(refused({.pairs_from = -1}), "train.nsp_from: expected 0, or 5 or more tokens, found -1");
  EXPECT_NE(refused({.pairs_from = 4}).find("found 4"), std::string::npos);
}

// With a warm-up, whose positions are in the first epoch, and without.
TEST(SegmentCursor, ContinuesFromAnyPosition) {
  const SentenceDocuments documents = many_documents();
  const SegmentOptions options{.max_length = 64};
  for (const LengthWarmup& warmup : {LengthWarmup(), LengthWarmup{{{8, 2}, {16, 1}}}}) {
    SegmentCursor whole(documents, options, warmup, 4096, 9);
    std::vector<CursorState> states;
    std::vector<SegmentBatch> batches;
    int64_t sequences = 0;
    while (whole.state().epoch < 3) {
      states.push_back(whole.state());
      batches.push_back(whole.next());
      EXPECT_LE(batches.back().cost, 4096);
      EXPECT_EQ(batches.back().epoch, states.back().epoch);
      if (states.back().epoch == 0 && batches.back().pairs) sequences += std::ssize(batches.back().items);
    }
    EXPECT_EQ(sequences, std::ssize(make_segments(documents, options, 9, 0)));
    for (const size_t from :
         {size_t{0}, size_t{1}, size_t{2}, size_t{3}, batches.size() / 2, batches.size() - 1}) {
      SegmentCursor part(documents, options, warmup, 4096, 9, states[from]);
      for (size_t i = from; i < batches.size(); ++i) {
        ASSERT_EQ(part.state(), states[i]) << from << ' ' << i;
        const SegmentBatch batch = part.next();
        ASSERT_EQ(batch.items, batches[i].items) << from << ' ' << i;
        ASSERT_EQ(batch.segments, batches[i].segments) << from << ' ' << i;
        ASSERT_EQ(batch.pairs, batches[i].pairs) << from << ' ' << i;
        ASSERT_EQ(batch.positions, batches[i].positions) << from << ' ' << i;
      }
    }
    const int64_t count = SegmentCursor(documents, options, warmup, 4096, 9).batches_in_epoch();
    expect_throw<UsageError>(concat("expected 0 to ", count - 1, " in epoch 0, found ", count), [&] {
      SegmentCursor(documents, options, warmup, 4096, 9, {0, count});
    });
  }
}

}  // namespace
}  // namespace qkv::data

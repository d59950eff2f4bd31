#include "qkv/data/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "qkv/base/error.h"
#include "tests/data/documents.h"

namespace qkv::data {
namespace {

using testing::expect_throw;
using testing::Scratch;

// Ids 0 to 4 are special as in BERT; 5 to 99 are words, of which the odd ones continue a word.
MaskingVocabulary vocabulary() {
  MaskingVocabulary result{
      .cls = 2, .sep = 3, .mask = 4, .ordinary = {}, .is_ordinary = {}, .continues_word = {}};
  for (int32_t id = 0; id < 100; ++id) {
    result.is_ordinary.push_back(id < 5 ? 0 : 1);
    result.continues_word.push_back(id >= 5 && id % 2 == 1 ? 1 : 0);
    if (id >= 5) result.ordinary.push_back(id);
  }
  return result;
}

// [CLS] words [SEP] words [SEP], with [UNK] among them.
std::vector<int32_t> input(RandomStream& random, int64_t words) {
  std::vector<int32_t> ids{2};
  for (int64_t i = 0; i < words; ++i) {
    ids.push_back(random.below(20) == 0 ? 1 : 5 + static_cast<int32_t>(random.below(95)));
    if (i == words / 2) ids.push_back(3);
  }
  ids.push_back(3);
  return ids;
}

TEST(Masking, SharesAreThoseOfThePaper) {
  const MaskingVocabulary own = vocabulary();
  RandomStream random(4);
  int64_t ordinary = 0, selected = 0, masked = 0, kept = 0, random_ones = 0;
  std::vector<int64_t> drawn(100);
  for (int i = 0; i < 3000; ++i) {
    const std::vector<int32_t> before = input(random, 120);
    std::vector<int32_t> after = before;
    const std::vector<int32_t> places = mask_tokens(after, own, {}, random);
    ASSERT_TRUE(std::ranges::is_sorted(places));
    const int64_t candidates = std::ranges::count_if(before, [](int32_t id) { return id >= 5; });
    ASSERT_EQ(std::ssize(places), std::llround(0.15f * static_cast<float>(candidates)));
    ordinary += candidates;
    selected += std::ssize(places);
    for (size_t at = 0; at < before.size(); ++at) {
      const bool chosen = std::ranges::binary_search(places, static_cast<int32_t>(at));
      if (!chosen) {
        ASSERT_EQ(before[at], after[at]);
        continue;
      }
      ASSERT_GE(before[at], 5) << "a special token was selected";
      ASSERT_TRUE(after[at] == 4 || after[at] >= 5) << "a special token was drawn";
      masked += after[at] == 4 ? 1 : 0;
      kept += after[at] == before[at] ? 1 : 0;
      if (after[at] != 4 && after[at] != before[at]) {
        ++random_ones;
        ++drawn[static_cast<size_t>(after[at])];
      }
    }
  }
  const auto share = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(selected);
  };
  EXPECT_NEAR(static_cast<double>(selected) / static_cast<double>(ordinary), 0.15, 0.001);
  EXPECT_NEAR(share(masked), 0.8, 0.006);
  EXPECT_NEAR(share(random_ones), 0.1 * 94 / 95, 0.005);
  EXPECT_NEAR(share(kept), 0.1 + 0.1 / 95, 0.005);
  for (size_t id = 5; id < 100; ++id) EXPECT_GT(drawn[id], 0) << id;
}

// The selection is uniform over positions.
TEST(Masking, SelectsAllPositionsEquallyOften) {
  const MaskingVocabulary own = vocabulary();
  RandomStream random(8);
  std::vector<int64_t> counts(22);
  for (int i = 0; i < 20000; ++i) {
    std::vector<int32_t> ids(22, 10);
    ids.front() = 2;
    ids.back() = 3;
    for (const int32_t at : mask_tokens(ids, own, {}, random)) ++counts[static_cast<size_t>(at)];
  }
  EXPECT_EQ(counts.front(), 0);
  EXPECT_EQ(counts.back(), 0);
  for (size_t at = 1; at < 21; ++at) EXPECT_NEAR(static_cast<double>(counts[at]), 3000, 250) << at;
}

TEST(Masking, WholeWordsAreMaskedTogether) {
  const MaskingVocabulary own = vocabulary();
  RandomStream random(5);
  int64_t ordinary = 0, selected = 0;
  for (int i = 0; i < 500; ++i) {
    const std::vector<int32_t> before = input(random, 100);
    std::vector<int32_t> after = before;
    const std::vector<int32_t> places = mask_tokens(after, own, {.whole_words = true}, random);
    const std::set<int32_t> chosen(places.begin(), places.end());
    for (size_t at = 1; at < before.size(); ++at) {
      const bool continues = before[at] >= 5 && before[at] % 2 == 1 && before[at - 1] >= 5;
      if (!continues) continue;
      ASSERT_EQ(chosen.contains(static_cast<int32_t>(at)), chosen.contains(static_cast<int32_t>(at) - 1));
    }
    ordinary += std::ranges::count_if(before, [](int32_t id) { return id >= 5; });
    selected += std::ssize(places);
  }
  EXPECT_NEAR(static_cast<double>(selected) / static_cast<double>(ordinary), 0.15, 0.01);
}

TEST(Masking, SomethingIsAlwaysSelected) {
  const MaskingVocabulary own = vocabulary();
  RandomStream random(6);
  const auto places = [&](std::vector<int32_t> ids, bool whole_words) {
    return mask_tokens(ids, own, {.whole_words = whole_words}, random);
  };
  EXPECT_EQ(places({2, 8, 3}, false), (std::vector<int32_t>{1}));
  EXPECT_EQ(places({2, 1, 3, 1, 3}, false), (std::vector<int32_t>{1}));
  EXPECT_EQ(places({2, 8, 9, 11, 3}, true), (std::vector<int32_t>{1, 2, 3})) << "a word above 15 %";
}

TEST(Masking, RatesAreChecked) {
  const auto refuse = [](const MaskingOptions& options, const char* part) {
    expect_throw<UsageError>(part, [&] { options.validate(); });
  };
  refuse({.rate = 0}, "train.mask_rate: expected above 0 and below 1, found 0");
  refuse({.mask_share = -0.5f}, "train.mask_share: expected 0 to 1, found -0.5");
  refuse({.mask_share = 0.75f, .random_share = 0.5f}, "train.random_share: expected at most 1 with");
  MaskingOptions{}.validate();
}

TEST(Masking, KnowsTheTokensOfAVocabulary) {
  const Scratch scratch;
  const auto path = testing::write_vocabulary(scratch);
  const auto own = MaskingVocabulary::of(text::Tokenizer::load(path), path.string());
  EXPECT_EQ(own.cls, 2);
  EXPECT_EQ(own.sep, 3);
  EXPECT_EQ(own.mask, 4);
  EXPECT_EQ(own.ordinary.size(), testing::small_vocabulary().size() - 5);
  EXPECT_EQ(own.ordinary.front(), 5);
  EXPECT_EQ(std::ranges::count(own.continues_word, 1), 2);
  EXPECT_EQ(own.continues_word[11], 1);
}

// The dynamic masks: a function of seed, epoch and item, not of the batch.
TEST(Masking, RowsOfABatch) {
  const SentenceDocuments documents = testing::counted_documents({{8, 6, 7}, {9, 12}}, 20);
  const Segments first{.first = 0, .second = 8, .first_tokens = 8, .second_tokens = 6, .follows = true};
  const Segments second{.first = 14, .second = 21, .first_tokens = 7, .second_tokens = 9, .follows = false};
  const auto rows = [&](int64_t epoch, const std::vector<int64_t>& items,
                        const std::vector<Segments>& chosen) {
    return make_rows(documents, {.epoch = epoch, .items = items, .segments = chosen, .cost = 0}, vocabulary(),
                     {}, 77);
  };
  const MaskedRows both = rows(2, {0, 1}, {first, second});
  EXPECT_EQ(both.inputs.offsets, (std::vector<int32_t>{0, 17, 36}));
  EXPECT_EQ(both.not_next, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(both.masked.size(), 2u + 2u);
  ASSERT_EQ(both.types.size(), 36u);
  for (const auto& [row, one] : {std::pair<size_t, const Segments*>(0, &first), {17, &second}}) {
    std::vector<int32_t> ids(both.inputs.ids.begin() + static_cast<int64_t>(row),
                             both.inputs.ids.begin() + static_cast<int64_t>(row) + one->tokens() + 3);
    for (size_t i = 0; i < both.masked.size(); ++i) {
      const int64_t at = both.masked[i] - static_cast<int64_t>(row);
      if (at >= 0 && at < std::ssize(ids)) ids[static_cast<size_t>(at)] = both.labels[i];
    }
    std::vector<int32_t> expected{2};
    const auto put = [&](int64_t begin, int32_t tokens) {
      for (int64_t i = begin; i < begin + tokens; ++i)
        expected.push_back(documents.ids[static_cast<size_t>(i)]);
      expected.push_back(3);
    };
    put(one->first, one->first_tokens);
    put(one->second, one->second_tokens);
    EXPECT_EQ(ids, expected);
    for (size_t at = 0; at < ids.size(); ++at)
      EXPECT_EQ(both.types[row + at], at < static_cast<size_t>(one->first_tokens) + 2 ? 0 : 1);
  }
  const MaskedRows alone = rows(2, {1}, {second});
  EXPECT_TRUE(std::ranges::equal(alone.inputs.ids, std::span(both.inputs.ids).subspan(17)));
  bool changed = false;
  for (int64_t epoch = 3; epoch < 6; ++epoch) {
    const MaskedRows other = rows(epoch, {1}, {second});
    changed = changed || other.masked != alone.masked;
  }
  EXPECT_TRUE(changed) << "masks must differ between epochs";
}

// Inputs of a warm-up: each a run of positions anywhere in the range, with the same masks as without.
TEST(Masking, InputsMayBeginAtAnyPosition) {
  const SentenceDocuments documents = testing::counted_documents({{8, 6, 7}, {9, 12}}, 20);
  SegmentBatch batch{.epoch = 1, .items = {}, .segments = {}, .pairs = false};
  for (int64_t item = 0; item < 400; ++item) {
    batch.items.push_back(item);
    batch.segments.push_back({.first = item % 9, .first_tokens = 4 + static_cast<int32_t>(item % 5)});
  }
  const auto rows = [&](int64_t positions) {
    batch.positions = positions;
    return make_rows(documents, batch, vocabulary(), {}, 77);
  };
  const MaskedRows plain = rows(0), moved = rows(16);
  EXPECT_TRUE(plain.positions.empty());
  EXPECT_EQ(moved.inputs.ids, plain.inputs.ids);
  EXPECT_EQ(moved.masked, plain.masked);
  ASSERT_EQ(moved.positions.size(), moved.inputs.ids.size());
  std::set<int32_t> firsts, lasts;
  for (size_t i = 0; i + 1 < moved.inputs.offsets.size(); ++i) {
    const auto begin = static_cast<size_t>(moved.inputs.offsets[i]),
               end = static_cast<size_t>(moved.inputs.offsets[i + 1]);
    firsts.insert(moved.positions[begin]);
    lasts.insert(moved.positions[end - 1]);
    for (size_t row = begin + 1; row < end; ++row)
      ASSERT_EQ(moved.positions[row], moved.positions[row - 1] + 1) << "input " << i;
  }
  EXPECT_EQ(*firsts.begin(), 0);
  EXPECT_EQ(*firsts.rbegin(), 16 - 6) << "the shortest has 6 tokens";
  EXPECT_EQ(*lasts.rbegin(), 15);
  EXPECT_EQ(rows(10).positions.size(), plain.inputs.ids.size());
  expect_throw<UsageError>("positions: expected at least the input's 10 tokens", [&] { rows(9); });
}

}  // namespace
}  // namespace qkv::data

#include "qkv/data/translation_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/data/batches_by_length.h"
#include "tests/data/numbers.h"

namespace qkv::data {
namespace {

using ::qkv::testing::Numbers;

class Batches : public ::testing::Test {
 protected:
  Numbers numbers_;
  text::TranslationTokenizer tokenizer_ = numbers_.tokenizer();
  TokenStore store_ = TokenStore::build(numbers_.files, tokenizer_, numbers_.folder / "tokens");

  std::vector<Batch> epoch(BatchCursor& cursor) const {
    std::vector<Batch> batches;
    const int64_t count = cursor.batches_in_epoch();
    for (int64_t i = 0; i < count; ++i) batches.push_back(cursor.next());
    return batches;
  }
  static std::vector<int64_t> pairs_of(const std::vector<Batch>& batches) {
    std::vector<int64_t> pairs;
    for (const Batch& batch : batches) pairs.insert(pairs.end(), batch.items.begin(), batch.items.end());
    return pairs;
  }
  // Tokens that padding both sides of every batch would add, relative to the number of tokens.
  double padding(const std::vector<Batch>& batches) const {
    int64_t padded = 0, tokens = 0;
    for (const Batch& batch : batches) {
      int64_t source = 0, target = 0;
      for (const int64_t pair : batch.items) {
        source = std::max(source, store_.source_length(pair) + 1);
        target = std::max(target, store_.target_length(pair) + 1);
      }
      padded += static_cast<int64_t>(batch.items.size()) * (source + target);
      tokens += batch.cost;
    }
    return static_cast<double>(padded) / static_cast<double>(tokens) - 1;
  }
  static int64_t tokens_of(const std::vector<Batch>& batches) {
    return std::accumulate(batches.begin(), batches.end(), int64_t{0},
                           [](int64_t sum, const Batch& batch) { return sum + batch.cost; });
  }
  // The used share of the batches' budgets.
  static double filled(const std::vector<Batch>& batches, int64_t budget) {
    return static_cast<double>(tokens_of(batches)) / static_cast<double>(budget * std::ssize(batches));
  }
};

TEST_F(Batches, EveryPairExactlyOnceAnEpochWithinTheBudget) {
  for (const int64_t window : {1, 100, 5000}) {
    BatchCursor cursor(pair_costs(store_), {.budget = 400, .window = window, .seed = 3});
    for (int64_t e = 0; e < 3; ++e) {
      const auto batches = epoch(cursor);
      int64_t index = 0, tokens = 0;
      for (const Batch& batch : batches) {
        EXPECT_EQ(batch.epoch, e);
        EXPECT_EQ(batch.index, index++);
        EXPECT_FALSE(batch.items.empty());
        EXPECT_LE(batch.cost, 400);
        int64_t sum = 0;
        for (const int64_t pair : batch.items) sum += pair_cost(store_, pair);
        EXPECT_EQ(batch.cost, sum);
        tokens += sum;
      }
      EXPECT_EQ(tokens, store_.report().source_tokens + store_.report().target_tokens + 2 * store_.pairs());
      auto pairs = pairs_of(batches);
      std::ranges::sort(pairs);
      std::vector<int64_t> all(static_cast<size_t>(store_.pairs()));
      std::iota(all.begin(), all.end(), int64_t{0});
      EXPECT_EQ(pairs, all);
      EXPECT_EQ(cursor.state(), (CursorState{e + 1, 0}));
    }
  }
}

TEST_F(Batches, WindowsMakeLengthsAlikeAndBatchesFull) {
  BatchCursor sorted(pair_costs(store_), {.budget = 400, .window = 8192}, {}, target_lengths(store_)),
      unsorted(pair_costs(store_), {.budget = 400});
  const auto batches = epoch(sorted);
  EXPECT_LT(padding(batches), 0.15);
  EXPECT_GT(padding(epoch(unsorted)), 2 * padding(batches));
  EXPECT_GT(filled(batches, 400), 0.9);
  // The batches are nevertheless in random order, not sorted by length.
  std::vector<int64_t> sizes;
  sizes.reserve(batches.size());
  for (const Batch& batch : batches) sizes.push_back(static_cast<int64_t>(batch.items.size()));
  EXPECT_FALSE(std::ranges::is_sorted(sizes));
  EXPECT_FALSE(std::ranges::is_sorted(sizes, std::greater<>()));
}

TEST_F(Batches, CrossTheBoundsOfSmallWindows) {
  for (const int64_t window : {1, 5, 15}) {  // a batch has about fifty pairs
    BatchCursor cursor(pair_costs(store_), {.budget = 2000, .window = window});
    const auto batches = epoch(cursor);
    EXPECT_GT(std::ssize(batches.front().items), 3 * window);
    EXPECT_GT(filled(batches, 2000), 0.9) << window;
  }
  // Lengths match where two windows meet: alternating directions need less padding than restarting the sort.
  BatchCursor cursor(pair_costs(store_), {.budget = 400, .window = 40}, {}, target_lengths(store_)),
      unsorted(pair_costs(store_), {.budget = 400});
  EXPECT_LT(padding(epoch(cursor)), 0.8 * padding(epoch(unsorted)));
}

TEST_F(Batches, AreAFunctionOfSeedAndEpoch) {
  const auto first_epoch = [&](uint64_t seed) {
    BatchCursor cursor(pair_costs(store_), {.budget = 300, .seed = seed});
    return pairs_of(epoch(cursor));
  };
  EXPECT_EQ(first_epoch(7), first_epoch(7));
  EXPECT_NE(first_epoch(7), first_epoch(8));
  BatchCursor cursor(pair_costs(store_), {.budget = 300, .seed = 7});
  const auto one = pairs_of(epoch(cursor)), two = pairs_of(epoch(cursor));
  EXPECT_NE(one, two);
  // The composition of batches changes too, not only their order.
  BatchCursor again(pair_costs(store_), {.budget = 300, .seed = 7});
  std::vector<std::vector<int64_t>> members[2];
  for (auto& of_epoch : members) {
    for (Batch& batch : epoch(again)) {
      std::ranges::sort(batch.items);
      of_epoch.push_back(batch.items);
    }
    std::ranges::sort(of_epoch);
  }
  EXPECT_NE(members[0], members[1]);
}

TEST_F(Batches, ContinueExactlyFromASavedState) {
  const BatchOptions options{.budget = 350, .window = 300, .seed = 11};
  BatchCursor whole(pair_costs(store_), options);
  const int64_t steps = 2 * whole.batches_in_epoch() + 5;
  for (int64_t stop = 0; stop < steps; stop += 7) {
    BatchCursor before(pair_costs(store_), options);
    for (int64_t i = 0; i < stop; ++i) before.next();
    BatchCursor expected(pair_costs(store_), options, before.state());
    BatchCursor restored(pair_costs(store_), options);
    restored.restore(before.state());
    for (int i = 0; i < 9; ++i) {
      const Batch batch = before.next();
      EXPECT_EQ(expected.next().items, batch.items);
      EXPECT_EQ(restored.next().items, batch.items);
    }
    EXPECT_EQ(expected.state(), before.state());
  }
}

TEST_F(Batches, PairsAboveTheBudgetAreBatchesByThemselves) {
  BatchCursor cursor(pair_costs(store_), {.budget = 1});
  EXPECT_EQ(cursor.batches_in_epoch(), store_.pairs());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(cursor.next().items.size(), 1u);
}

TEST_F(Batches, BadOptionsAndStatesAreRefused) {
  EXPECT_THROW(BatchCursor(pair_costs(store_), {.budget = 0}), UsageError);
  EXPECT_THROW(BatchCursor(pair_costs(store_), {.window = 0}), UsageError);
  EXPECT_THROW(BatchCursor(pair_costs(store_), {.max_batches = -1}), UsageError);
  EXPECT_THROW(BatchCursor(pair_costs(store_), {}, {}, {1, 2}), UsageError);
  EXPECT_THROW(BatchCursor(pair_costs(store_), {}, {-1, 0}), UsageError);
  EXPECT_THROW(BatchCursor(pair_costs(store_), {}, {0, 100'000}), UsageError);
  BatchCursor cursor(pair_costs(store_), {.budget = 300});
  cursor.next();
  const CursorState state = cursor.state();
  EXPECT_THROW(cursor.restore({2, 100'000}), UsageError);
  EXPECT_EQ(cursor.state(), state);
  EXPECT_EQ(cursor.next().items, BatchCursor(pair_costs(store_), {.budget = 300}, state).next().items);
}

TEST_F(Batches, RowsCarryTheSpecialTokens) {
  const std::vector<int64_t> pairs = {7, 1000, 3};
  const text::SpecialIds special = tokenizer_.special_ids();
  EXPECT_EQ(special.start, tokenizer_.pad_id());
  EXPECT_EQ(special.eos, tokenizer_.eos_id());
  EXPECT_THROW(make_rows(store_, pairs, {.start = std::nullopt}), UsageError);
  const TranslationRows rows = make_rows(store_, pairs, special);
  EXPECT_EQ(rows.source.sequences(), 3);
  EXPECT_EQ(rows.labels.offsets, rows.decoder_input.offsets);
  int64_t cost = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto row = [&](const TokenRows& of) {
      return std::vector<int32_t>(of.ids.begin() + of.offsets[i], of.ids.begin() + of.offsets[i + 1]);
    };
    const auto source = store_.source(pairs[i]), target = store_.target(pairs[i]);
    std::vector<int32_t> expected(source.begin(), source.end());
    expected.push_back(0);
    EXPECT_EQ(row(rows.source), expected);
    expected.assign(target.begin(), target.end());
    expected.push_back(0);
    EXPECT_EQ(row(rows.labels), expected);
    expected.pop_back();
    expected.insert(expected.begin(), tokenizer_.pad_id());
    EXPECT_EQ(row(rows.decoder_input), expected);
    cost += pair_cost(store_, pairs[i]);
  }
  EXPECT_EQ(rows.source.tokens() + rows.labels.tokens(), cost);
  // A model whose sources have no end.
  text::SpecialIds without_end = special;
  without_end.source_eos = false;
  const TranslationRows bare = make_rows(store_, pairs, without_end);
  EXPECT_EQ(bare.source.tokens(), rows.source.tokens() - std::ssize(pairs));
  EXPECT_EQ(bare.labels.ids, rows.labels.ids);
  for (size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(bare.source.offsets[i + 1] - bare.source.offsets[i], std::ssize(store_.source(pairs[i])));
}

TEST_F(Batches, SequentialBatchesCoverAllLongestFirst) {
  const auto batches = sequential_batches(pair_costs(store_), 500);
  auto pairs = pairs_of(batches);
  EXPECT_TRUE(std::ranges::is_sorted(
      pairs, [&](int64_t a, int64_t b) { return pair_cost(store_, a) > pair_cost(store_, b); }));
  for (const Batch& batch : batches) EXPECT_LE(batch.cost, 500);
  std::ranges::sort(pairs);
  EXPECT_EQ(std::ranges::adjacent_find(pairs), pairs.end());
  EXPECT_EQ(static_cast<int64_t>(pairs.size()), store_.pairs());
}

TEST(BatchesByLength, LongestFirstWithinTheBudgetEachSequenceOnce) {
  using Indices = std::vector<std::vector<size_t>>;
  EXPECT_EQ(batches_by_length(std::vector<int64_t>{3, 9, 3, 5, 20, 1}, 10),
            (Indices{{4}, {1}, {3, 0}, {2, 5}}));
  const std::vector<int64_t> lengths = {3, 9, 1, 9, 4, 20, 2};
  EXPECT_EQ(batches_by_length(lengths, 12), (Indices{{5}, {1}, {3}, {4, 0, 6, 2}}));
  EXPECT_TRUE(batches_by_length({}, 5).empty());
  EXPECT_THROW(batches_by_length(lengths, 0), UsageError);
}

TEST(BatchesOfRealText, AreFullAndLittlePadded) {
  const std::filesystem::path folder = std::filesystem::path(QKV_SHARED_DATA) / "multi30k";
  if (!std::filesystem::exists(folder / "train.en")) GTEST_SKIP() << "needs ../shared/data/multi30k";
  const testing::Scratch scratch;
  const CorpusFiles files{folder / "train.en", folder / "train.de"};
  const auto tokenizer = text::TranslationTokenizer::from_models(
      {text::train_sentencepiece({.inputs = {folder / "val.en", folder / "val.de"}, .vocab_size = 2000}), "",
       "en", "de"});
  const TokenStore store = TokenStore::build(files, tokenizer, scratch / "tokens");
  EXPECT_GT(store.pairs(), 28'900);
  EXPECT_EQ(store.report().lines(), 29'000);
  BatchCursor cursor(pair_costs(store), {.budget = 4096, .window = 8192});
  const int64_t batches = cursor.batches_in_epoch();
  const int64_t tokens = store.report().source_tokens + store.report().target_tokens + 2 * store.pairs();
  EXPECT_LT(batches * 4096, tokens * 105 / 100);
}

}  // namespace
}  // namespace qkv::data

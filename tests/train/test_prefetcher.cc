#include "qkv/train/prefetcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/train/reverse_task.h"

namespace qkv::train {
namespace {

using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

struct Corpus {
  Corpus() {
    const TranslationJob job = small_job(scratch, "out");
    train(job);
    store.emplace(data::TokenStore::open(job.folder / "cache/train.tokens"));
  }
  Prefetcher feed(data::CursorState from = {}) const {
    return {*store, data::BatchCursor(*store, options, from), special, 3};
  }

  Scratch scratch;
  std::optional<data::TokenStore> store;
  data::BatchOptions options{.max_tokens = 150, .window = 20, .seed = 3};
  data::SpecialIds special{.source_eos = 1, .target_eos = 2, .decoder_start = 3};
};

// The steps are the cursor's batches, three at a time, over the ends of epochs.
TEST(Prefetcher, GivesWhatTheCursorGives) {
  const Corpus corpus;
  Prefetcher feed = corpus.feed();
  data::BatchCursor cursor(*corpus.store, corpus.options);
  ASSERT_GT(cursor.batches_in_epoch(), 4);
  for (int step = 0; step < 12; ++step) {
    EXPECT_EQ(feed.batches_in_epoch(), cursor.batches_in_epoch());
    const StepBatches found = feed.next();
    ASSERT_EQ(found.rows.size(), 3u);
    int64_t tokens = 0, labels = 0;
    for (const data::TranslationRows& rows : found.rows) {
      const data::Batch batch = cursor.next();
      const data::TranslationRows expected = data::make_rows(*corpus.store, batch.pairs, corpus.special);
      EXPECT_EQ(rows.source.ids, expected.source.ids);
      EXPECT_EQ(rows.source.offsets, expected.source.offsets);
      EXPECT_EQ(rows.decoder_input.ids, expected.decoder_input.ids);
      EXPECT_EQ(rows.labels.ids, expected.labels.ids);
      EXPECT_EQ(rows.labels.offsets, expected.labels.offsets);
      tokens += batch.tokens;
      labels += expected.labels.tokens();
    }
    EXPECT_EQ(found.tokens, tokens);
    EXPECT_EQ(found.labels, labels);
    EXPECT_EQ(found.after, cursor.state());
    EXPECT_EQ(found.batches_in_epoch, cursor.batches_in_epoch());
  }
  EXPECT_GT(cursor.state().epoch, 1);
}

TEST(Prefetcher, GoesOnFromWhereAStepEnded) {
  const Corpus corpus;
  data::CursorState between;
  std::vector<int32_t> expected;
  {
    Prefetcher feed = corpus.feed();
    feed.next();
    between = feed.next().after;
    expected = feed.next().rows[1].source.ids;
  }  // a step that nobody asked for was under way
  Prefetcher feed = corpus.feed(between);
  EXPECT_EQ(feed.next().rows[1].source.ids, expected);
}

}  // namespace
}  // namespace qkv::train

#include "qkv/train/prefetcher.h"

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::message_of;

struct Numbered : Batch {
  int64_t number = 0;
};

// Epochs of seven numbered batches; may fail at one of them.
class Counting : public BatchStream {
 public:
  explicit Counting(data::CursorState from = {}, int64_t fail_at = -1) : state_(from), fail_at_(fail_at) {}
  std::unique_ptr<Batch> next() override {
    auto batch = std::make_unique<Numbered>();
    batch->number = state_.epoch * 7 + state_.batch;
    if (batch->number == fail_at_) throw DataError("batch 9: damaged");
    batch->size = {.items = 1, .units = batch->number, .labels = 10 * batch->number};
    if (++state_.batch == batches_in_epoch()) state_ = {state_.epoch + 1, 0};
    return batch;
  }
  data::CursorState state() const override { return state_; }
  int64_t batches_in_epoch() const override { return 7; }

 private:
  data::CursorState state_;
  int64_t fail_at_;
};

int64_t number(const StepBatches& step, size_t i) {
  return static_cast<const Numbered&>(*step.batches.at(i)).number;
}

// Steps are the stream's batches, three at a time, across epochs.
TEST(Prefetcher, GivesWhatTheStreamGives) {
  Prefetcher feed(std::make_unique<Counting>(), 3);
  EXPECT_EQ(feed.batches_in_epoch(), 7);
  for (int64_t step = 0; step < 12; ++step) {
    const StepBatches found = feed.next();
    ASSERT_EQ(found.batches.size(), 3u);
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(number(found, static_cast<size_t>(i)), 3 * step + i);
    EXPECT_EQ(found.size.items, 3);
    EXPECT_EQ(found.size.units, 9 * step + 3);
    EXPECT_EQ(found.size.labels, 10 * (9 * step + 3));
    EXPECT_EQ(found.after, (data::CursorState{(3 * step + 3) / 7, (3 * step + 3) % 7}));
  }
}

TEST(Prefetcher, ResumesWhereAStepEnded) {
  data::CursorState between;
  {
    Prefetcher feed(std::make_unique<Counting>(), 3);
    feed.next();
    between = feed.next().after;
  }  // an unrequested step was being prepared
  Prefetcher feed(std::make_unique<Counting>(between), 3);
  EXPECT_EQ(number(feed.next(), 1), 7);
}

TEST(Prefetcher, ThrowsWhatTheStreamThrew) {
  Prefetcher feed(std::make_unique<Counting>(data::CursorState{}, 9), 3);
  for (int step = 0; step < 3; ++step) EXPECT_NO_THROW(feed.next());
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(message_of<DataError>([&] { feed.next(); }), "batch 9: damaged");
}

}  // namespace
}  // namespace qkv::train

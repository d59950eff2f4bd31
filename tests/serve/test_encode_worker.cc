// Batches of an encoder's worker: who shares one, and whose input an error ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/serve/error.h"
#include "qkv/serve/work/encode_worker.h"

namespace {

using namespace qkv;
using pipelines::ImageRequest;
using serve::ImageWorker;

// Doubles the only pixel of each image; a negative one is an error. The first batch waits for open().
class Doubling {
 public:
  void operator()(std::span<const ImageRequest* const> requests,
                  const std::function<void(size_t request, const Tensor& hidden)>& use) {
    opened_.wait();
    {
      const std::lock_guard lock(mutex_);
      batches_.push_back(std::ssize(requests));
    }
    for (const ImageRequest* one : requests)
      if (one->pixels.item() < 0) throw DataError("a negative pixel");
    for (size_t i = 0; i < requests.size(); ++i)
      use(i, Tensor::from(std::vector{2 * requests[i]->pixels.item()}, {1, 1}));
  }
  void open() { gate_.set_value(); }
  std::vector<int64_t> batches() const {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  std::promise<void> gate_;
  std::shared_future<void> opened_{gate_.get_future()};
  mutable std::mutex mutex_;
  std::vector<int64_t> batches_;
};

// An image in a call of its own.
struct Submitted {
  serve::CallHandle call;
  std::future<float> result;
};

Submitted submit(ImageWorker& worker, float pixel, std::chrono::seconds time = std::chrono::minutes(1)) {
  const auto promise = std::make_shared<std::promise<float>>();
  Submitted result{std::make_shared<serve::Call>("client", serve::Clock::now() + time, nullptr),
                   promise->get_future()};
  const auto request =
      std::make_shared<const ImageRequest>(ImageRequest{.pixels = Tensor::full({1}, pixel), .error = {}});
  const auto on_done = [promise](const Tensor* hidden, const std::exception_ptr& error) {
    // A second answer would throw.
    if (error) {
      promise->set_exception(error);
    } else {
      promise->set_value(hidden ? hidden->values()[0] : -1);
    }
  };
  worker.submit(result.call, {ImageWorker::Job{request, on_done}});
  return result;
}

bool eventually_waits_for(const ImageWorker& worker, int64_t count) {
  for (int i = 0; i < 6000 && worker.counters().waiting != count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return worker.counters().waiting == count;
}

TEST(EncodeWorkers, WhatArrivesDuringABatchIsTheNextOne) {
  Doubling doubling;
  const serve::EncodeOptions options{.batch_tokens = 12};
  ImageWorker worker(
      std::ref(doubling), [](const ImageRequest&) { return 4; }, options);
  std::vector<Submitted> images;
  images.push_back(submit(worker, 1));
  ASSERT_TRUE(eventually_waits_for(worker, 0));
  for (const float pixel : {2.0f, 3.0f, 4.0f, 5.0f}) images.push_back(submit(worker, pixel));
  doubling.open();
  for (size_t i = 0; i < images.size(); ++i) EXPECT_EQ(images[i].result.get(), 2 * static_cast<float>(i + 1));
  // Three images have 12 tokens.
  EXPECT_EQ(doubling.batches(), (std::vector<int64_t>{1, 3, 1}));
  EXPECT_EQ(worker.counters().done, 5);
  EXPECT_EQ(worker.counters().tokens_in, 20);
}

TEST(EncodeWorkers, AnErrorEndsItsInputOnly) {
  Doubling doubling;
  ImageWorker worker(std::ref(doubling), [](const ImageRequest&) { return 1; }, {});
  Submitted first = submit(worker, 1);
  ASSERT_TRUE(eventually_waits_for(worker, 0));
  Submitted good = submit(worker, 2), bad = submit(worker, -1), left = submit(worker, 3),
            other = submit(worker, 4), late = submit(worker, 5, std::chrono::seconds(-1));
  left.call->cancel();
  doubling.open();
  EXPECT_EQ(first.result.get(), 2);
  EXPECT_EQ(good.result.get(), 4);
  EXPECT_THROW(bad.result.get(), DataError);
  EXPECT_EQ(left.result.get(), -1) << "a client that has left costs nothing";
  EXPECT_EQ(other.result.get(), 8);
  EXPECT_THROW(late.result.get(), serve::DeadlineExceeded);
  EXPECT_EQ(doubling.batches(), (std::vector<int64_t>{1, 3, 1, 1, 1})) << "three together, then each alone";
}

TEST(EncodeWorkers, EndWhatWaitsWhenTheyEnd) {
  Doubling doubling;
  // The batch is not full, and waits for further images.
  const serve::EncodeOptions options{.max_wait = std::chrono::minutes(10), .queue = 2};
  auto worker = std::make_unique<ImageWorker>(
      std::ref(doubling), [](const ImageRequest&) { return 1; }, options);
  Submitted first = submit(*worker, 1), second = submit(*worker, 2);
  EXPECT_THROW(submit(*worker, 3), serve::QueueFull);
  worker.reset();
  EXPECT_THROW(first.result.get(), serve::ShuttingDown);
  EXPECT_THROW(second.result.get(), serve::ShuttingDown);
  EXPECT_TRUE(doubling.batches().empty());
}

}  // namespace

// A worker whose model throws: who ends, and who does not notice.

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/serve/error.h"
#include "qkv/serve/work/decode_worker.h"
#include "tests/search/random_step_model.h"

namespace {

using namespace qkv;
using search::Decoded;
using search::testing::RandomModel;
using search::testing::RandomStepModel;
using serve::Call;
using serve::DecodeWorker;

constexpr search::SpecialIds kRandomSpecial{.start = 3, .eos = 0};

search::Request request_of(int32_t sentence) {
  return {.source = {sentence, 1, 1},
          .options = {.beam = 2, .max_new_tokens = 12},
          .key = static_cast<uint64_t>(sentence)};
}

// The results of requests, each a call of its own.
std::vector<Decoded> results_of(DecodeWorker& worker, const std::vector<int32_t>& sentences) {
  std::vector<std::promise<Decoded>> promises(sentences.size());
  const auto call = std::make_shared<Call>("client", serve::Clock::now() + std::chrono::minutes(1), nullptr);
  std::vector<serve::DecodeJob> jobs;
  for (size_t i = 0; i < sentences.size(); ++i) {
    jobs.push_back({request_of(sentences[i]),
                    [&promises, i](Decoded decoded) { promises[i].set_value(std::move(decoded)); }});
  }
  worker.submit(call, std::move(jobs));
  std::vector<Decoded> results;
  for (auto& promise : promises)
    results.push_back(promise.get_future().get());  // a second answer would throw
  return results;
}

search::NBest alone(int32_t sentence) {
  RandomStepModel model(RandomModel{.vocabulary = 20});
  const search::Request request = request_of(sentence);
  return search::search(model, kRandomSpecial, std::span(&request, 1)).at(0);
}

TEST(DecodeWorkers, ABadSourceEndsItsRequestOnly) {
  const auto model = std::make_shared<RandomStepModel>(RandomModel{.vocabulary = 20});
  model->bad_open = {5};
  model->bad_admit = {6};
  DecodeWorker worker([&] { return search::Engine(model, kRandomSpecial); }, {}, 100);
  const std::vector<Decoded> results = results_of(worker, {4, 5, 6, 7});
  for (const size_t bad : {1, 2}) EXPECT_THROW(std::rethrow_exception(results[bad].error), IoError);
  for (const size_t good : {0, 3}) {
    ASSERT_EQ(results[good].error, nullptr);
    EXPECT_TRUE(search::testing::same_bits(results[good].hypotheses, alone(good == 0 ? 4 : 7)));
  }
  EXPECT_EQ(worker.counters().failed, 2);
  EXPECT_EQ(worker.counters().done, 2);
  EXPECT_EQ(worker.counters().running, 0);
}

TEST(DecodeWorkers, ABadStepEndsThoseInItAndNoLaterOnes) {
  const auto model = std::make_shared<RandomStepModel>(RandomModel{.vocabulary = 20});
  model->bad_step = 2;
  DecodeWorker worker([&] { return search::Engine(model, kRandomSpecial); }, {}, 100);
  for (const Decoded& one : results_of(worker, {4, 5})) {
    ASSERT_NE(one.error, nullptr);
    EXPECT_THROW(std::rethrow_exception(one.error), IoError);
  }
  const std::vector<Decoded> later = results_of(worker, {4});
  ASSERT_EQ(later.at(0).error, nullptr);
  EXPECT_TRUE(search::testing::same_bits(later[0].hypotheses, alone(4)));
  EXPECT_EQ(model->held(), 0);
}

TEST(DecodeWorkers, AnEngineThatCannotBeMadeIsTriedAgain) {
  int made = 0;
  DecodeWorker worker(
      [&] {
        if (made++ == 0) throw std::bad_alloc();
        return search::Engine(std::make_shared<RandomStepModel>(RandomModel{.vocabulary = 20}),
                              kRandomSpecial);
      },
      {}, 100);
  for (const Decoded& one : results_of(worker, {4, 5})) {
    ASSERT_NE(one.error, nullptr);
    EXPECT_THROW(std::rethrow_exception(one.error), std::bad_alloc);
  }
  EXPECT_EQ(results_of(worker, {6}).at(0).error, nullptr);
  EXPECT_EQ(made, 2);
}

TEST(DecodeWorkers, EndWhatWaitsWhenTheyEnd) {
  std::promise<Decoded> promise;
  {
    DecodeWorker worker(
        [&]() -> search::Engine {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          throw serve::ShuttingDown();
        },
        {}, 100);
    const auto call = std::make_shared<Call>("client", serve::Clock::time_point::max());
    worker.submit(call, {{request_of(4), [&](Decoded decoded) { promise.set_value(std::move(decoded)); }}});
  }
  const Decoded ended = promise.get_future().get();
  ASSERT_NE(ended.error, nullptr);
  EXPECT_THROW(std::rethrow_exception(ended.error), serve::ShuttingDown);
}

}  // namespace

// Requests of an engine: cancellation, budgets, chunked prompts, models that throw.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/search/engine/engine.h"
#include "qkv/search/ensemble_step_model.h"
#include "tests/search/random_step_model.h"
#include "tests/support/scratch.h"

namespace qkv::search {
namespace {

using testing::RandomModel;
using testing::RandomStepModel;
using testing::requests_for;
using testing::same_bits;
using testing::with_options;

constexpr SpecialIds kSpecial{.start = 3, .eos = 0};

NBest alone(const RandomModel& model, const Request& request) {
  RandomStepModel step_model(model);
  return search(step_model, kSpecial, std::span(&request, 1)).at(0);
}

// Beams, samples and alternatives of several sizes.
SearchOptions random_options(RandomStream& random) {
  const int limit = 3 + static_cast<int>(random.below(20));
  switch (random.below(4)) {
    case 0:
      return {.beam = 1 + static_cast<int>(random.below(5)), .max_new_tokens = limit};
    case 1:
      return {.beam = 1,
              .nbest = 1 + static_cast<int>(random.below(4)),
              .sampling = Sampling{.temperature = 1.5},
              .max_new_tokens = limit};
    case 2:
      return {.beam = 2, .nbest = 3, .alternatives = true, .max_new_tokens = limit};
    default:
      return {.beam = 3, .coverage_penalty = 0.3, .max_new_tokens = limit, .min_new_tokens = 2};
  }
}

std::map<uint64_t, Decoded> drain(Engine& engine) {
  std::map<uint64_t, Decoded> found;
  while (!engine.idle()) {
    for (Decoded& one : engine.step()) {
      const uint64_t id = one.request_id;
      EXPECT_TRUE(found.emplace(id, std::move(one)).second) << "told twice";
    }
  }
  return found;
}

// Arrivals, cancellations and budgets do not affect the bits of a result.
TEST(EngineRequests, RandomArrivalsCancellationsAndBudgets) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const RandomModel model{.seed = seed, .vocabulary = 25, .eos_bonus = 1};
    RandomStream random(seed);
    const auto step_model = std::make_shared<RandomStepModel>(model);
    step_model->reads = seed % 2 == 0;
    const EngineOptions budgets{
        .batch_tokens = static_cast<int64_t>(random.below(3) * 25),
        .cache_bytes = random.below(3) == 0 ? 0 : 200 + static_cast<int64_t>(random.below(300)),
        .prefill_tokens = 1 + static_cast<int64_t>(random.below(12))};
    Engine engine(step_model, kSpecial, budgets);
    std::vector<Request> requests;
    std::map<uint64_t, Decoded> found;
    std::set<uint64_t> cancelled;
    while (requests.size() < 80 || !engine.idle()) {
      for (uint64_t arrivals = random.below(6); arrivals > 0 && requests.size() < 80; --arrivals) {
        Request request{.source = std::vector<int32_t>(1 + random.below(30), 1),
                        .options = random_options(random),
                        .key = requests.size()};
        request.source.front() = static_cast<int32_t>(random.below(40));
        if (random.below(3) == 0) request.prefix = {5, 7};
        requests.push_back(request);
        ASSERT_EQ(engine.submit(request), requests.size() - 1);
      }
      if (random.below(4) == 0 && !requests.empty()) {
        const uint64_t id = random.below(requests.size());
        const bool under_way = !found.contains(id) && !cancelled.contains(id);
        EXPECT_EQ(engine.cancel(id), under_way);
        if (under_way) cancelled.insert(id);
        EXPECT_FALSE(engine.cancel(id)) << "only once";
      }
      if (budgets.cache_bytes > 0) {
        EXPECT_LE(engine.reserved_bytes(), budgets.cache_bytes);
      }
      EXPECT_LE(step_model->held(), engine.reserved_bytes());
      for (Decoded& one : engine.step()) {
        const uint64_t id = one.request_id;
        EXPECT_TRUE(found.emplace(id, std::move(one)).second) << "told twice";
      }
    }
    ASSERT_EQ(found.size(), requests.size());
    EXPECT_GT(cancelled.size(), 3u);
    EXPECT_EQ(engine.reserved_bytes(), 0);
    EXPECT_EQ(step_model->held(), 0);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(found[i].cancelled, cancelled.contains(i));
      EXPECT_EQ(found[i].error, nullptr);
      if (cancelled.contains(i)) {
        EXPECT_TRUE(found[i].hypotheses.empty());
      } else {
        EXPECT_TRUE(same_bits(found[i].hypotheses, alone(model, requests[i]))) << seed << " " << i;
      }
    }
    if (step_model->reads) {
      EXPECT_GT(step_model->most_read, 0);
      EXPECT_LE(step_model->most_read, budgets.prefill_tokens);
    }
    if (budgets.cache_bytes > 0) {
      EXPECT_LE(step_model->most_held, budgets.cache_bytes);
    }
  }
}

TEST(EngineRequests, CancellationFreesRowsAndCacheAtOnce) {
  const RandomModel model{.seed = 5, .vocabulary = 25, .eos_bonus = -30};
  const auto step_model = std::make_shared<RandomStepModel>(model);
  step_model->reads = true;
  Engine engine(step_model, kSpecial, {.batch_tokens = 40, .prefill_tokens = 16});
  const SearchOptions options{.beam = 3, .max_new_tokens = 20};
  const std::vector<Request> requests = with_options(requests_for({1, 2, 3, 4}, {8, 9, 20, 30}), options);
  for (const Request& request : requests) engine.submit(request);
  EXPECT_TRUE(engine.step().empty());
  EXPECT_TRUE(engine.step().empty());
  ASSERT_EQ(step_model->requests(), 2);  // the third is being read, the fourth is queued
  const int64_t held = step_model->held(), reserved = engine.reserved_bytes();
  EXPECT_TRUE(engine.cancel(0));
  EXPECT_EQ(step_model->requests(), 1);
  EXPECT_LT(step_model->held(), held - 8);
  EXPECT_LT(engine.reserved_bytes(), reserved);
  EXPECT_TRUE(engine.cancel(2));
  EXPECT_EQ(engine.reserved_bytes(), 9 + 3 * 21);
  EXPECT_TRUE(engine.cancel(3));
  EXPECT_FALSE(engine.cancel(17));
  std::map<uint64_t, Decoded> found = drain(engine);
  for (const uint64_t id : {0, 2, 3}) {
    EXPECT_TRUE(found.at(id).cancelled) << id;
    EXPECT_EQ(found[id].error, nullptr);
    EXPECT_TRUE(found[id].hypotheses.empty());
  }
  EXPECT_FALSE(found.at(1).cancelled);
  EXPECT_TRUE(same_bits(found[1].hypotheses, alone(model, requests[1])));
  // Cancelled requests still have to be reported.
  engine.submit(requests[0]);
  EXPECT_TRUE(engine.cancel(4));
  EXPECT_FALSE(engine.idle());
  EXPECT_TRUE(drain(engine).at(4).cancelled);
}

TEST(EngineRequests, OnTokenMaySubmitButNeitherStepNorCancel) {
  const RandomModel model{.seed = 5, .vocabulary = 25};
  const Request other{.source = {2, 1}, .options = {.beam = 1}};
  Engine engine(std::make_shared<RandomStepModel>(model), kSpecial);
  const auto error_of = [&](const std::function<bool(const NewToken&)>& on_token) {
    const uint64_t id = engine.submit({.source = {1}, .options = {.beam = 1}, .on_token = on_token});
    return drain(engine).at(id).error;
  };
  const auto refused = [&](const std::string& call, const std::function<bool(const NewToken&)>& on_token) {
    EXPECT_EQ(qkv::testing::message_of<UsageError>([&] { std::rethrow_exception(error_of(on_token)); }),
              call + ": expected to be called between steps, found a step under way");
  };
  refused("cancel", [&](const NewToken&) { return engine.cancel(0); });
  refused("step", [&](const NewToken&) { return engine.step().empty(); });
  EXPECT_THROW(std::rethrow_exception(error_of(
                   [&](const NewToken&) { return decode_all(engine, std::span(&other, 1)).empty(); })),
               UsageError);

  std::optional<uint64_t> submitted;
  engine.submit({.source = {1}, .options = {.beam = 1}, .on_token = [&](const NewToken&) {
                   EXPECT_FALSE(engine.idle());
                   if (!submitted) submitted = engine.submit(other);
                   return true;
                 }});
  EXPECT_TRUE(same_bits(drain(engine).at(*submitted).hypotheses, alone(model, other)));
}

TEST(EngineRequests, ARequestThatNeedsMoreThanTheBudgetIsRefused) {
  const RandomModel model{.seed = 5, .vocabulary = 25};
  Engine engine(std::make_shared<RandomStepModel>(model), kSpecial, {.cache_bytes = 100});
  Request request{.source = std::vector<int32_t>(9, 1), .options = {.beam = 4, .max_new_tokens = 20}};
  EXPECT_EQ(request.options.limit(9, 3), 24);
  try {
    request.prefix = {5, 6, 7};
    engine.submit(request);  // 9 + 4 * (3 + 20 + 1)
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("cache_bytes of 100, found a need of 105"), std::string::npos)
        << error.what();
  }
  request.options.beam = 3;
  EXPECT_EQ(engine.submit(request), 0u);
  EXPECT_FALSE(drain(engine).at(0).error);
}

TEST(EngineRequests, ALongPromptDoesNotHoldUpOthers) {
  const RandomModel model{.seed = 7, .vocabulary = 25, .eos_bonus = -30};
  const auto step_model = std::make_shared<RandomStepModel>(model);
  step_model->reads = true;
  Engine engine(step_model, kSpecial, {.batch_tokens = 0, .prefill_tokens = 10});
  std::vector<Request> requests =
      with_options(requests_for({1, 2, 3}, {5, 201, 4}), {.beam = 1, .max_new_tokens = 6});
  engine.submit(requests[0]);
  engine.step();
  engine.submit(requests[1]);
  std::map<uint64_t, int> ended;
  for (int step = 1; !engine.idle(); ++step) {
    if (step == 5) engine.submit(requests[2]);
    for (const Decoded& one : engine.step()) {
      ended[one.request_id] = step;
      EXPECT_TRUE(same_bits(one.hypotheses, alone(model, requests[one.request_id])));
    }
  }
  EXPECT_LE(ended[0], 6);
  EXPECT_LE(ended[2], 11) << "a short prompt is read beside the long one";
  EXPECT_GE(ended[1], 20);
  EXPECT_LE(ended[1], 27);
  EXPECT_EQ(step_model->most_read, 10);
}

TEST(EngineRequests, AModelThatThrowsEndsTheRequestsConcerned) {
  const RandomModel model{.seed = 9, .vocabulary = 25};
  for (const char* const where : {"open", "read", "admit"}) {
    const auto step_model = std::make_shared<RandomStepModel>(model);
    step_model->reads = true;
    (where == std::string("open")   ? step_model->bad_open
     : where == std::string("read") ? step_model->bad_read
                                    : step_model->bad_admit) = {2, 4};
    Engine engine(step_model, kSpecial);
    const std::vector<Request> requests =
        with_options(requests_for({1, 2, 3, 4, 5}, {5, 6, 7, 8, 9}), {.beam = 2, .max_new_tokens = 9});
    for (const Request& request : requests) engine.submit(request);
    std::map<uint64_t, Decoded> found = drain(engine);
    ASSERT_EQ(found.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      if (i % 2 == 1) {
        EXPECT_THROW(std::rethrow_exception(found[i].error), IoError) << where;
      } else {
        EXPECT_EQ(found[i].error, nullptr) << where;
        EXPECT_TRUE(same_bits(found[i].hypotheses, alone(model, requests[i]))) << where;
      }
    }
    EXPECT_EQ(engine.reserved_bytes(), 0);
    EXPECT_EQ(step_model->held(), 0);
  }
}

TEST(EngineRequests, AMemberOfAnEnsembleThatThrowsEndsTheRequestsConcerned) {
  const auto members = [&](std::vector<int32_t> bad) {
    std::vector<std::shared_ptr<RandomStepModel>> both;
    for (const uint64_t seed : {9, 10}) {
      both.push_back(std::make_shared<RandomStepModel>(RandomModel{.seed = seed, .vocabulary = 25}));
      both.back()->reads = true;
    }
    both[1]->bad_admit = std::move(bad);
    return both;
  };
  const auto decoded = [&](const std::vector<std::shared_ptr<RandomStepModel>>& both,
                           std::span<const Request> requests) {
    Engine engine(std::make_shared<EnsembleStepModel>(
                      std::vector<std::shared_ptr<StepModel>>(both.begin(), both.end())),
                  kSpecial);
    // The first is decoded already when the others come.
    engine.submit(requests[0]);
    std::map<uint64_t, Decoded> found;
    for (int step = 0; step < 2; ++step) {
      for (Decoded& one : engine.step()) found.emplace(one.request_id, std::move(one));
    }
    for (const Request& request : requests.subspan(1)) engine.submit(request);
    found.merge(drain(engine));
    EXPECT_EQ(engine.reserved_bytes(), 0);
    return found;
  };
  const std::vector<Request> requests =
      with_options(requests_for({1, 2, 3, 4, 5}, {5, 6, 7, 8, 9}), {.beam = 2, .max_new_tokens = 9});
  const auto good = members({}), bad = members({2, 4});
  const std::map<uint64_t, Decoded> expected = decoded(good, requests), found = decoded(bad, requests);
  ASSERT_EQ(found.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    if (i % 2 == 1) {
      EXPECT_THROW(std::rethrow_exception(found.at(i).error), IoError);
    } else {
      ASSERT_EQ(found.at(i).error, nullptr) << i;
      EXPECT_TRUE(same_bits(found.at(i).hypotheses, expected.at(i).hypotheses)) << i;
    }
  }
  for (const auto& member : bad) EXPECT_EQ(member->held(), 0);
}

TEST(EngineRequests, AStepThatThrowsEndsTheRowsThatItHad) {
  const RandomModel model{.seed = 9, .vocabulary = 25, .eos_bonus = -30};
  const auto step_model = std::make_shared<RandomStepModel>(model);
  step_model->bad_step = 3;
  Engine engine(step_model, kSpecial, {.batch_tokens = 12});
  const std::vector<Request> requests =
      with_options(requests_for({1, 2, 3, 4}, {5, 6, 7, 8}), {.beam = 2, .max_new_tokens = 9});
  for (const Request& request : requests) engine.submit(request);
  std::map<uint64_t, Decoded> found = drain(engine);
  for (const size_t i : {0, 1}) {
    EXPECT_THROW(std::rethrow_exception(found[i].error), IoError);
    EXPECT_TRUE(found[i].hypotheses.empty());
  }
  for (const size_t i : {2, 3}) {
    EXPECT_EQ(found[i].error, nullptr);
    EXPECT_TRUE(same_bits(found[i].hypotheses, alone(model, requests[i])));
  }
  EXPECT_EQ(engine.reserved_bytes(), 0);
  EXPECT_EQ(step_model->held(), 0);
}

TEST(EngineRequests, OptionsAreTheRequests) {
  const RandomModel model{.seed = 11, .vocabulary = 25};
  Engine engine(std::make_shared<RandomStepModel>(model), kSpecial);
  EXPECT_THROW(engine.submit({.source = {1}, .options = {.beam = 0}}), UsageError);
  const Request one{.source = {1, 1}, .options = {.beam = 1, .max_new_tokens = 3, .min_new_tokens = 3}};
  const Request other{.source = {1, 1}, .options = {.beam = 5, .nbest = 5, .max_new_tokens = 12}};
  engine.submit(one);
  engine.submit(other);
  std::map<uint64_t, Decoded> found = drain(engine);
  EXPECT_EQ(found[0].hypotheses.at(0).ids.size(), 4u);
  EXPECT_EQ(found[1].hypotheses.size(), 5u);
}

TEST(FitPositions, LeavesWhatTheModelCanRead) {
  Request request{.source = {7}, .options = {.max_new_tokens = 100, .min_new_tokens = 50}, .prefix = {1, 2}};
  fit_positions(request, 12, 1);  // a start token, two prefix tokens, and nine of ten new tokens are read
  EXPECT_EQ(request.options.max_new_tokens, 10);
  EXPECT_EQ(request.options.min_new_tokens, 10);
  EXPECT_EQ(request.options.limit(0, 2), 13);
  fit_positions(request, 1000, 1);
  EXPECT_EQ(request.options.max_new_tokens, 10);
  EXPECT_THROW(fit_positions(request, 2, 1), UsageError);
}

}  // namespace
}  // namespace qkv::search

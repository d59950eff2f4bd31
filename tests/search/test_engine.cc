// Requests that arrive over time: batching, streaming, alternatives, coverage.

#include "qkv/search/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "qkv/base/error.h"
#include "tests/search/random_step_model.h"

namespace qkv::search {
namespace {

using testing::RandomModel;
using testing::RandomStepModel;
using testing::requests_for;
using testing::same_bits;
using testing::with_options;

constexpr int32_t kStart = 3, kEos = 0;
constexpr SpecialIds kSpecial{.start = kStart, .eos = kEos};

NBest alone(const RandomModel& model, const Request& request, const SearchOptions& options) {
  const auto step_model = std::make_shared<RandomStepModel>(model);
  return search(*step_model, kSpecial, with_options(std::span(&request, 1), options)).at(0);
}

// Several kinds of search, as in a server.
std::vector<SearchOptions> kinds() {
  return {{.beam = 4, .nbest = 2, .max_new_tokens = 24},
          {.beam = 1, .max_new_tokens = 19, .no_repeat_ngram = 2},
          {.beam = 1, .nbest = 3, .sampling = Sampling{.top_p = 0.9, .seed = 4}, .max_new_tokens = 14},
          {.beam = 1, .max_new_tokens = 17, .repetition_penalty = 1.4f},
          {.beam = 3, .coverage_penalty = 0.4, .max_new_tokens = 11},
          {.beam = 2, .nbest = 3, .alternatives = true, .max_new_tokens = 11}};
}

TEST(Engine, GivesEachRequestWhatItHasAloneWheneverItComes) {
  const RandomModel model{.seed = 8, .vocabulary = 30, .eos_bonus = 1.5f};
  for (const int64_t budget : {1, 20, 1000}) {
    const auto step_model = std::make_shared<RandomStepModel>(model);
    Engine engine(step_model, kSpecial, {.batch_tokens = budget});
    RandomStream random(static_cast<uint64_t>(budget));
    std::vector<Request> requests;
    std::vector<SearchOptions> options;
    std::map<uint64_t, NBest> found;
    while (requests.size() < 60 || !engine.idle()) {
      for (uint64_t arrivals = random.below(6); arrivals > 0 && requests.size() < 60; --arrivals) {
        Request request{.source = std::vector<int32_t>(1 + random.below(9), 1), .key = requests.size()};
        request.source.front() = static_cast<int32_t>(random.below(40));
        if (random.below(3) == 0) request.prefix = {5, 7};
        requests.push_back(request);
        options.push_back(kinds()[random.below(kinds().size())]);
        EXPECT_EQ(engine.submit(with_options(request, options.back())), requests.size() - 1);
      }
      for (Decoded& one : engine.step()) {
        EXPECT_FALSE(one.error);
        EXPECT_TRUE(found.emplace(one.request_id, std::move(one.hypotheses)).second) << "told twice";
      }
    }
    ASSERT_EQ(found.size(), 60u);
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_TRUE(same_bits(found[i], alone(model, requests[i], options[i]))) << budget << " " << i;
    EXPECT_LE(step_model->most_source_tokens, std::max<int64_t>(budget, 9));
  }
}

TEST(Engine, APlaceThatIsFreeIsTaken) {
  // One sentence in eight is long.
  const RandomModel model{.seed = 1, .vocabulary = 12, .eos_bonus = -30};
  std::vector<Request> requests = requests_for(std::vector<uint64_t>(64, 1), std::vector<size_t>(64, 4));
  const auto step_model = std::make_shared<RandomStepModel>(model);
  Engine engine(step_model, kSpecial, {.batch_tokens = 32});  // eight sentences
  int64_t tokens = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int length = i % 8 == 0 ? 40 : 5;
    tokens += length - 1;  // the end is forced
    engine.submit(
        with_options(requests[i], {.beam = 1, .max_new_tokens = length - 1, .max_source_factor = 0}));
  }
  while (!engine.idle()) engine.step();
  EXPECT_EQ(step_model->rows, tokens) << "a sentence that is done costs nothing";
  // Decoding batch after batch would take eight times the longest: 312 steps.
  EXPECT_LT(step_model->steps, 120);
  EXPECT_LT(step_model->groups, 32) << "new requests are read in groups";
  EXPECT_EQ(step_model->most_source_tokens, 32);
}

TEST(Engine, WhatIsWrongWithOneLeavesTheOthersUnharmed) {
  class Broken : public RandomStepModel {
   public:
    using RandomStepModel::RandomStepModel;
    Tensor step(const Tensor& ids) override {
      Tensor logits = RandomStepModel::step(ids);
      if (ids.numel() > 1) logits.data()[logits.cols() + 2] = std::numeric_limits<float>::quiet_NaN();
      return logits;
    }
  };
  const RandomModel model{.seed = 3, .vocabulary = 9};
  const auto step_model = std::make_shared<Broken>(model);
  Engine engine(step_model, kSpecial);
  const std::vector<Request> requests = requests_for({1, 2, 3}, {5, 4, 3});
  const SearchOptions options{.beam = 1, .max_new_tokens = 8};
  std::vector<Decoded> found = decode_all(engine, with_options(requests, options));
  EXPECT_TRUE(same_bits(found[0].hypotheses, alone(model, requests[0], options)));
  EXPECT_THROW(std::rethrow_exception(found[1].error), NumericError);
  EXPECT_TRUE(found[1].hypotheses.empty());
  EXPECT_EQ(found[0].error, nullptr);

  const auto good = std::make_shared<RandomStepModel>(model);
  Engine other(good, kSpecial);
  std::vector<Request> mixed = requests_for({1, 2, 3, 4}, {2, 2, 2, 2});
  mixed[0].source.clear();
  mixed[1].prefix = {model.vocabulary};
  mixed[2].on_token = [](const NewToken&) -> bool { throw IoError("gone"); };
  found = decode_all(other, with_options(mixed, options));
  EXPECT_THROW(std::rethrow_exception(found[0].error), UsageError);
  EXPECT_THROW(std::rethrow_exception(found[1].error), UsageError);
  EXPECT_THROW(std::rethrow_exception(found[2].error), IoError);
  EXPECT_TRUE(same_bits(found[3].hypotheses, alone(model, mixed[3], options)));
  EXPECT_TRUE(other.idle());
}

TEST(Engine, RefusesWhatItCannotFollow) {
  const RandomModel model{.seed = 3, .vocabulary = 9};
  const auto step_model = std::make_shared<RandomStepModel>(model);
  EXPECT_THROW(Engine(step_model, kSpecial, {.batch_tokens = -1}), UsageError);
  EXPECT_THROW(Engine(step_model, kSpecial, {.cache_bytes = -1}), UsageError);
  EXPECT_THROW(Engine(step_model, kSpecial, {.prefill_tokens = 0}), UsageError);
  EXPECT_THROW(Engine(nullptr, kSpecial), UsageError);
  EXPECT_THROW(Engine(step_model, {.start = 1, .eos = 9}), UsageError);
  Engine engine(step_model, kSpecial);
  SearchTrace trace;
  const Request traced{.source = {1}, .trace = &trace};
  EXPECT_THROW(engine.submit(with_options(traced, {.beam = 1, .sampling = Sampling{}})), UsageError);
  EXPECT_THROW(engine.submit(with_options(traced, {.alternatives = true})), UsageError);
  EXPECT_THROW(
      engine.submit({.source = {1}, .options = {.beam = 1, .sampling = Sampling{}, .alternatives = true}}),
      UsageError);
  EXPECT_THROW(engine.submit({.source = {1}, .options = {.coverage_penalty = -1}}), UsageError);
  step_model->attends = false;
  EXPECT_THROW(engine.submit({.source = {1}, .options = {.coverage_penalty = 0.2}}), UsageError);
  EXPECT_TRUE(engine.idle());
}

TEST(Engine, APromptGoesOnFromItsLastToken) {
  const RandomModel model{.seed = 6, .vocabulary = 9};
  const Request request{.source = {4, 7, 5}, .options = {.beam = 3, .max_new_tokens = 8}};
  const auto step_model = std::make_shared<RandomStepModel>(model);
  const NBest as_prompt = search(*step_model, {.start = {}, .eos = kEos}, std::span(&request, 1)).at(0);
  const NBest as_start = search(*step_model, {.start = 5, .eos = kEos}, std::span(&request, 1)).at(0);
  EXPECT_TRUE(same_bits(as_prompt, as_start));
  const Request unrepeated = with_options(request, {.beam = 3, .no_repeat_ngram = 1});
  const NBest without = search(*step_model, {.start = {}, .eos = kEos}, std::span(&unrepeated, 1)).at(0);
  for (const int32_t id : without[0].ids) EXPECT_EQ(std::ranges::count(request.source, id), 0);
  EXPECT_THROW(search(*step_model, {.start = {}, .eos = kEos}, std::vector<Request>(1)), UsageError);
}

TEST(OnToken, TellsGreedyAndDrawnTokensAsTheyCome) {
  const RandomModel model{.seed = 4, .vocabulary = 30, .eos_bonus = 1};
  for (const SearchOptions& options :
       {kinds()[1], kinds()[2], kinds()[3], SearchOptions{.beam = 1, .nbest = 3, .alternatives = true}}) {
    for (int32_t sentence = 0; sentence < 5; ++sentence) {
      const auto step_model = std::make_shared<RandomStepModel>(model);
      Engine engine(step_model, kSpecial);
      std::map<int32_t, Hypothesis> told;
      int64_t late = 0;
      const auto on_token = [&](const NewToken& token) {
        Hypothesis& one = told[token.sample];
        one.ids.push_back(token.id);
        one.token_log_probabilities.push_back(token.log_probability);
        // The first steps read the start token and the prefix; the last </s> may be forced.
        late += std::ssize(one.ids) < step_model->steps - 2 ? 1 : 0;
        return true;
      };
      engine.submit({.source = {sentence, 1, 1}, .options = options, .prefix = {5, 6}, .on_token = on_token});
      NBest found;
      while (!engine.idle()) {
        for (Decoded& one : engine.step()) found = std::move(one.hypotheses);
      }
      EXPECT_EQ(late, 0);
      std::multiset<std::vector<int32_t>> expected, heard;
      for (const Hypothesis& one : found) {
        expected.insert({one.ids.begin() + 2, one.ids.end()});
      }
      for (const auto& [sample, one] : told) heard.insert(one.ids);
      EXPECT_EQ(heard, expected);
    }
  }
}

TEST(OnToken, TellsABeamsBestAtItsEnd) {
  const RandomModel model{.seed = 4, .vocabulary = 12};
  std::vector<int32_t> told;
  const Request request{.source = {2, 1}, .prefix = {5}, .on_token = [&](const NewToken& token) {
                          told.push_back(token.id);
                          return told.size() < 3;
                        }};
  const NBest found = alone(model, request, {.beam = 3, .max_new_tokens = 11, .min_new_tokens = 5});
  ASSERT_GE(found[0].ids.size(), 6u);
  EXPECT_EQ(told, std::vector<int32_t>(found[0].ids.begin() + 1, found[0].ids.begin() + 4))
      << "until enough was heard";
  EXPECT_TRUE(same_bits(found, alone(model, {.source = {2, 1}, .prefix = {5}},
                                     {.beam = 3, .max_new_tokens = 11, .min_new_tokens = 5})));
}

TEST(OnToken, EndsTheOutputThatNobodyWantsMoreOf) {
  const RandomModel model{.seed = 4, .vocabulary = 30, .eos_bonus = -9};
  for (const SearchOptions& options :
       {SearchOptions{.beam = 1, .max_new_tokens = 29}, SearchOptions{.beam = 1, .sampling = Sampling{}}}) {
    const auto step_model = std::make_shared<RandomStepModel>(model);
    int heard = 0;
    std::vector<Request> requests = requests_for({1, 2}, {8, 8});
    requests[0].on_token = [&](const NewToken&) { return ++heard < 4; };
    const std::vector<NBest> found = search(*step_model, kSpecial, with_options(requests, options));
    const NBest whole = alone(model, requests_for({1}, {8})[0], options);
    EXPECT_EQ(heard, 4);
    ASSERT_EQ(found[0][0].ids.size(), 5u) << "four, and the </s> that ends it";
    EXPECT_FALSE(found[0][0].complete);
    EXPECT_TRUE(std::equal(whole[0].ids.begin(), whole[0].ids.begin() + 4, found[0][0].ids.begin()));
    EXPECT_GT(found[1][0].ids.size(), 5u);
  }
}

TEST(Alternatives, AreTheLikeliestTokensEachSearchedOnFrom) {
  const RandomModel model{.seed = 21, .vocabulary = 12, .eos_bonus = 0.5f};
  for (const int beam : {1, 3}) {
    for (const std::vector<int32_t>& prefix : {std::vector<int32_t>{}, {4, 9}}) {
      for (int32_t sentence = 0; sentence < 6; ++sentence) {
        // Without a length penalty, tokens before a position do not affect the choice after it.
        const SearchOptions plain{.beam = beam, .length_penalty = 0, .max_new_tokens = 13};
        SearchOptions options = plain;
        options.alternatives = true;
        options.nbest = 4;
        const NBest found = alone(model, {.source = {sentence, 1}, .prefix = prefix}, options);
        ASSERT_EQ(found.size(), 4u);
        std::vector<int32_t> tokens{kStart};
        tokens.insert(tokens.end(), prefix.begin(), prefix.end());
        const std::vector<double> next = model.log_probabilities(static_cast<uint64_t>(sentence), tokens);
        std::vector<int32_t> order(12);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, std::greater(),
                                 [&](int32_t id) { return next[static_cast<size_t>(id)]; });
        for (size_t i = 0; i < 4; ++i) {
          const int32_t token = found[i].ids.at(prefix.size());
          EXPECT_EQ(token, order[i]);
          EXPECT_NEAR(found[i].token_log_probabilities[prefix.size()], next[static_cast<size_t>(token)],
                      1e-6);
          if (token == kEos) {
            EXPECT_EQ(found[i].ids.size(), prefix.size() + 1);
            continue;
          }
          std::vector<int32_t> longer = prefix;
          longer.push_back(token);
          SearchOptions shorter = plain;
          --shorter.max_new_tokens;  // the token is in the prefix now
          const NBest rest = alone(model, {.source = {sentence, 1}, .prefix = longer}, shorter);
          EXPECT_EQ(found[i].ids, rest[0].ids);
          EXPECT_NEAR(found[i].log_probability, rest[0].log_probability + next[static_cast<size_t>(token)],
                      1e-5);
        }
      }
    }
  }
}

TEST(Coverage, FormulaByHand) {
  EXPECT_NEAR(coverage_penalty(0.2, std::vector{0.5f, 1.7f, 1.0f, 0.25f}),
              0.2 * (std::log(0.5) + std::log(0.25)), 1e-12);
  EXPECT_EQ(coverage_penalty(0, std::vector{0.1f}), 0);
  EXPECT_EQ(coverage_penalty(0.5, {}), 0);
  EXPECT_TRUE(std::isfinite(coverage_penalty(1, std::vector{0.0f})));
}

TEST(Coverage, CountsWhatAllTokensAttendedTo) {
  const RandomModel model{.seed = 31, .vocabulary = 5};
  const RandomStepModel oracle(model);
  for (int32_t sentence = 0; sentence < 6; ++sentence) {
    SearchTrace trace;
    const Request request{.source = {sentence, 1, 1, 1}, .prefix = {2}, .trace = &trace};
    SearchOptions options{.beam = 400,
                          .nbest = 400,
                          .coverage_penalty = 0.7,
                          .early_stopping = EarlyStopping::exact,
                          .max_new_tokens = 3};
    const NBest found = alone(model, request, options);
    options.coverage_penalty = 0;
    const NBest without = alone(model, {.source = request.source, .prefix = {2}}, options);
    ASSERT_EQ(found.size(), without.size()) << "all outputs that there are";
    std::map<std::vector<int32_t>, double> plain;
    for (const Hypothesis& one : without) plain[one.ids] = one.score;
    EXPECT_TRUE(std::ranges::is_sorted(found, std::ranges::greater_equal(), &Hypothesis::score));
    for (const Hypothesis& one : found) {
      std::vector<int32_t> tokens{kStart};
      std::vector<double> attended(4);
      // A forced </s> has no attention.
      const size_t said = one.ids.size() - (one.complete ? 0 : 1);
      for (size_t t = 0; t < said; ++t) {
        const auto weights = oracle.attention(static_cast<uint64_t>(sentence), 4, tokens);
        for (size_t i = 0; i < 4; ++i) attended[i] += static_cast<double>(weights[i]);
        tokens.push_back(one.ids[t]);
      }
      double penalty = 0;
      for (const double sum : attended) penalty += 0.7 * std::log(std::min(sum, 1.0));
      EXPECT_LT(penalty, 0);
      EXPECT_NEAR(one.score, plain.at(one.ids) + penalty, 2e-6);
    }
    for (const auto& step : trace.steps) {
      for (const TraceEntry& entry : step)
        EXPECT_NEAR(entry.score, static_cast<double>(entry.total) / entry.penalty + entry.coverage, 1e-5);
    }
    EXPECT_LT(trace.steps.front().front().coverage, 0);
  }
}

}  // namespace
}  // namespace qkv::search

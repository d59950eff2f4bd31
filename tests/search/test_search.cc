#include "qkv/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
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

NBest run(const RandomModel& model, uint64_t sentence, const SearchOptions& options) {
  RandomStepModel step_model(model);
  return search(step_model, kSpecial, with_options(requests_for({sentence}, {10}), options)).at(0);
}

struct Output {
  std::vector<int32_t> ids;
  double log_probability = 0, score = 0;
};

// All outputs that the options allow, best first.
std::vector<Output> all_outputs(const RandomModel& model, uint64_t sentence, const SearchOptions& options) {
  std::vector<Output> outputs;
  std::vector<int32_t> tokens = {kStart};
  const std::function<void(double)> extend = [&](double total) {
    const auto add = [&](double log_probability) {
      Output output{{tokens.begin() + 1, tokens.end()}, log_probability, 0};
      output.ids.push_back(kEos);
      const auto length = static_cast<double>(output.ids.size());
      output.score = log_probability / (options.length_penalty_type == LengthPenaltyType::power
                                            ? std::pow(length, options.length_penalty)
                                            : std::pow((5 + length) / 6, options.length_penalty));
      outputs.push_back(output);
    };
    const auto length = static_cast<int>(tokens.size());  // of an output that ends here
    if (length == options.max_new_tokens + 1) return add(total);
    const std::vector<double> next = model.log_probabilities(sentence, tokens);
    if (length > options.min_new_tokens) add(total + next[kEos]);
    for (int32_t id = 1; id < model.vocabulary; ++id) {
      if (std::count(options.suppress_tokens.begin(), options.suppress_tokens.end(), id)) continue;
      tokens.push_back(id);
      extend(total + next[static_cast<size_t>(id)]);
      tokens.pop_back();
    }
  };
  extend(0);
  std::sort(outputs.begin(), outputs.end(),
            [](const Output& a, const Output& b) { return a.score > b.score; });
  return outputs;
}

void expect_all(const RandomModel& model, uint64_t sentence, SearchOptions options) {
  const std::vector<Output> expected = all_outputs(model, sentence, options);
  options.beam = 400;  // nothing is pruned
  options.nbest = 400;
  options.early_stopping = EarlyStopping::exact;
  const NBest found = run(model, sentence, options);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids) << i;
    EXPECT_NEAR(found[i].score, expected[i].score, 2e-6) << i;
    EXPECT_NEAR(found[i].log_probability, expected[i].log_probability, 5e-6) << i;
  }
}

TEST(Search, FindsEveryOutputInOrderWhenTheBeamHoldsThemAll) {
  for (uint64_t sentence = 0; sentence < 10; ++sentence) {
    expect_all({.seed = 5}, sentence, {.max_new_tokens = 4});
    expect_all({.seed = 5}, sentence,
               {.length_penalty = 1.5, .length_penalty_type = LengthPenaltyType::gnmt, .max_new_tokens = 4});
    expect_all({.seed = 5}, sentence, {.length_penalty = -0.5, .max_new_tokens = 3});
    expect_all({.seed = 5}, sentence, {.length_penalty = 0, .max_new_tokens = 1});
    expect_all({.seed = 5}, sentence, {.max_new_tokens = 4, .min_new_tokens = 2});
    expect_all({.seed = 5}, sentence, {.max_new_tokens = 4, .suppress_tokens = {2}});
    expect_all({.seed = 5, .vocabulary = 2}, sentence, {.max_new_tokens = 29, .max_source_factor = 0});
  }
}

TEST(Search, ANarrowBeamFindsAnOutputThatExistsAndOftenTheBest) {
  int best = 0;
  for (uint64_t sentence = 0; sentence < 50; ++sentence) {
    const RandomModel model{.seed = 9, .vocabulary = 5};
    SearchOptions options{.beam = 4, .nbest = 4, .early_stopping = EarlyStopping::exact, .max_new_tokens = 4};
    const std::vector<Output> outputs = all_outputs(model, sentence, options);
    const NBest found = run(model, sentence, options);
    ASSERT_EQ(found.size(), 4u);
    for (const Hypothesis& hypothesis : found) {
      const auto same = std::find_if(outputs.begin(), outputs.end(),
                                     [&](const Output& output) { return output.ids == hypothesis.ids; });
      ASSERT_NE(same, outputs.end());
      EXPECT_NEAR(hypothesis.score, same->score, 2e-6);
    }
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(),
                               [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; }));
    best += found[0].ids == outputs[0].ids;
  }
  EXPECT_GE(best, 40);  // of 50 sentences; greedy search finds far fewer
}

TEST(Search, TokenLogProbabilitiesAreTheModelsAndAddUp) {
  const RandomModel model{.seed = 3, .vocabulary = 9};
  for (uint64_t sentence = 0; sentence < 10; ++sentence) {
    for (const Hypothesis& hypothesis : run(model, sentence, {.nbest = 4, .max_new_tokens = 11})) {
      ASSERT_EQ(hypothesis.ids.size(), hypothesis.token_log_probabilities.size());
      ASSERT_EQ(hypothesis.ids.back(), kEos);
      std::vector<int32_t> tokens = {kStart};
      float sum = 0;
      for (size_t i = 0; i < hypothesis.ids.size(); ++i) {
        const bool forced = !hypothesis.complete && i + 1 == hypothesis.ids.size();
        const double expected =
            forced ? 0 : model.log_probabilities(sentence, tokens)[static_cast<size_t>(hypothesis.ids[i])];
        EXPECT_NEAR(hypothesis.token_log_probabilities[i], expected, 1e-6);
        sum += hypothesis.token_log_probabilities[i];
        tokens.push_back(hypothesis.ids[i]);
      }
      EXPECT_EQ(static_cast<float>(hypothesis.log_probability), sum);
      EXPECT_EQ(hypothesis.complete, hypothesis.ids.size() < 12);
    }
  }
}

TEST(Search, ABeamOfOneTakesTheLikeliestTokenEachTime) {
  const RandomModel model{.seed = 4, .vocabulary = 30};
  int finished = 0;
  for (uint64_t sentence = 0; sentence < 20; ++sentence) {
    std::vector<int32_t> tokens = {kStart}, greedy;
    while (greedy.size() < 19 && (greedy.empty() || greedy.back() != kEos)) {
      const std::vector<float> logits = model.logits(sentence, tokens);
      greedy.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      tokens.push_back(greedy.back());
    }
    finished += greedy.back() == kEos;
    if (greedy.back() != kEos) greedy.push_back(kEos);
    for (const auto policy : {EarlyStopping::heuristic, EarlyStopping::exact, EarlyStopping::when_full}) {
      const NBest found = run(model, sentence, {.beam = 1, .early_stopping = policy, .max_new_tokens = 19});
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].ids, greedy);
    }
  }
  EXPECT_GT(finished, 5);
  EXPECT_LT(finished, 20);
}

TEST(Search, ASentencesResultDoesNotDependOnTheOthersNorOnThreads) {
  const RandomModel model{.seed = 8, .vocabulary = 40, .eos_bonus = 2};
  const SearchOptions options{
      .beam = 3, .nbest = 3, .max_new_tokens = 29, .max_source_factor = 2, .max_source_extra = 3};
  const std::vector<Request> requests = requests_for({11, 4, 7, 4, 19, 2, 23, 5}, {9, 3, 12, 3, 1, 7, 20, 2});
  const int before = threads();
  std::vector<NBest> together;
  for (const int count : {1, 2, 5}) {
    set_threads(count);
    RandomStepModel step_model(model);
    together = search(step_model, kSpecial, with_options(requests, options));
    ASSERT_EQ(together.size(), requests.size());
    // Finished sentences cost nothing.
    EXPECT_LT(step_model.rows, step_model.steps * 3 * 8);
    for (size_t i = 0; i < requests.size(); ++i) {
      RandomStepModel alone(model);
      const NBest expected =
          search(alone, kSpecial, with_options(std::span(requests).subspan(i, 1), options)).at(0);
      EXPECT_TRUE(same_bits(together[i], expected)) << i;
      EXPECT_LE(together[i].at(0).ids.size(), 2 * requests[i].source.size() + 4);
    }
  }
  set_threads(before);
  EXPECT_TRUE(same_bits(together[1], together[3]));
}

TEST(Search, TiesGoToEarlierParentsAndThenLowerIds) {
  // Four equal logits in each step: only the tie rule determines the order.
  const RandomModel model{.seed = 1, .vocabulary = 4, .granularity = 100};
  const NBest found = run(model, 0, {.beam = 4, .nbest = 4, .length_penalty = 0, .max_new_tokens = 2});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].ids, (std::vector<int32_t>{0}));
  EXPECT_EQ(found[1].ids, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(found[2].ids, (std::vector<int32_t>{1, 1, 0}));
  EXPECT_EQ(found[3].ids, (std::vector<int32_t>{1, 2, 0}));
}

TEST(Search, LengthPenaltiesByHand) {
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenaltyType::gnmt, 0.6, 1), 1);
  EXPECT_NEAR(length_penalty(LengthPenaltyType::gnmt, 0.6, 7), std::exp(0.6 * std::log(2.0)), 1e-12);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenaltyType::gnmt, 1, 19), 4);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenaltyType::power, 2, 5), 25);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenaltyType::power, 0, 5), 1);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenaltyType::power, -1, 4), 0.25);
  EXPECT_NEAR(length_penalty(LengthPenaltyType::power, 0.6, 10), 3.9810717055349722, 1e-12);
}

TEST(Search, LengthLimits) {
  const SearchOptions options{.max_new_tokens = 99, .max_source_factor = 1.5, .max_source_extra = 9};
  EXPECT_EQ(options.limit(1), 11);
  EXPECT_EQ(options.limit(20), 40);
  EXPECT_EQ(options.limit(1000), 100);
  EXPECT_EQ((SearchOptions{.max_new_tokens = 99, .max_source_factor = 0}.limit(1)), 100);
  const RandomModel endless{.seed = 2, .vocabulary = 6, .eos_bonus = -30};
  const NBest found = run(endless, 1, {.nbest = 4, .max_new_tokens = 6});
  ASSERT_EQ(found.size(), 4u);
  for (const Hypothesis& hypothesis : found) {
    EXPECT_EQ(hypothesis.ids.size(), 7u);
    EXPECT_EQ(hypothesis.ids.back(), kEos);
    EXPECT_FALSE(hypothesis.complete);
    EXPECT_EQ(hypothesis.token_log_probabilities.back(), 0);
  }
  const RandomModel curt{.seed = 2, .vocabulary = 6, .eos_bonus = 30};
  EXPECT_EQ(run(curt, 1, {.max_new_tokens = 6}).at(0).ids.size(), 1u);
  EXPECT_EQ(run(curt, 1, {.max_new_tokens = 6, .min_new_tokens = 3}).at(0).ids.size(), 4u);
}

TEST(Search, NoSentencesGiveNoResults) {
  const RandomModel model;
  RandomStepModel step_model(model);
  EXPECT_TRUE(search(step_model, kSpecial, {}).empty());
  EXPECT_EQ(step_model.steps, 0);
}

class BadStepModel : public StepModel {
 public:
  explicit BadStepModel(float value) : value_(value) {}
  int64_t vocabulary() const override { return 4; }
  void admit(std::span<const std::unique_ptr<Source>>) override {}
  Tensor step(const Tensor& ids) override {
    std::vector<float> logits;
    for (int64_t row = 0; row < ids.numel(); ++row) logits.insert(logits.end(), {0.5f, value_, 1, 2});
    return Tensor::from(logits, {ids.numel(), 4});
  }
  void reorder(std::span<const int32_t>, const Offsets&) override {}

 private:
  float value_;
};

TEST(Search, BadNumbersAndOptionsAreErrors) {
  const std::vector<Request> lengths = requests_for({1}, {3});
  BadStepModel nan(std::numeric_limits<float>::quiet_NaN()), infinite(std::numeric_limits<float>::infinity()),
      good(0.25f);
  EXPECT_THROW(search(nan, kSpecial, lengths), NumericError);
  EXPECT_THROW(search(infinite, kSpecial, lengths), NumericError);
  EXPECT_EQ(search(good, kSpecial, lengths).at(0).size(), 1u);
  EXPECT_THROW(search(good, {.start = 0, .eos = 4}, lengths), UsageError);
  EXPECT_THROW(
      search(good, kSpecial, with_options(lengths, {.min_new_tokens = 1, .suppress_tokens = {1, 2, 3}})),
      DataError);
  for (const SearchOptions& options :
       {SearchOptions{.beam = 0}, SearchOptions{.nbest = 0}, SearchOptions{.beam = 2, .nbest = 3},
        SearchOptions{.length_penalty = std::nan("")}, SearchOptions{.max_new_tokens = 0},
        SearchOptions{.max_new_tokens = 4, .min_new_tokens = 5}, SearchOptions{.max_source_factor = -1}}) {
    EXPECT_THROW(search(good, kSpecial, with_options(lengths, options)), UsageError);
  }
}

}  // namespace
}  // namespace qkv::search

// Prefixes, constraints, sampling and traces.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/philox.h"
#include "qkv/search/sampling.h"
#include "tests/search/random_step_model.h"
#include "tests/search/table_step_model.h"

namespace qkv::search {
namespace {

using nlohmann::json;
using testing::RandomModel;
using testing::RandomStepModel;
using testing::same_bits;
using testing::with_options;

constexpr int32_t kStart = 3, kEos = 0;
constexpr SpecialIds kSpecial{.start = kStart, .eos = kEos};

const json& golden() {
  static const json file = json::parse(read_file(QKV_TEST_DATA "/search/controls.json"));
  return file;
}

NBest run(const RandomModel& model, Request request, const SearchOptions& options, uint64_t sentence = 1) {
  request.source.front() = static_cast<int32_t>(sentence);
  RandomStepModel step_model(model);
  return search(step_model, kSpecial, with_options(std::span(&request, 1), options)).at(0);
}

TEST(Controls, FindWhatTransformersFind) {
  const auto table = golden()["table"].get<testing::Table>();
  int searches = 0;
  for (const json& expected : golden()["searches"]) {
    const auto prefix = expected["prefix"].get<std::vector<int32_t>>();
    const SearchOptions options{
        .beam = expected["beam"],
        .nbest = expected["beam"],
        .length_penalty = 0.8,
        .max_new_tokens = 10 - static_cast<int>(prefix.size()),
        .max_source_factor = 0,
        .suppress_tokens = {golden()["pad"].get<int32_t>()},
        .bad_words = expected["forbidden_sequences"].get<std::vector<std::vector<int32_t>>>(),
        .no_repeat_ngram = expected["no_repeat_ngram"],
        .repetition_penalty = expected["repetition_penalty"]};
    const Request request{.source = {1}, .options = options, .prefix = prefix};
    testing::TableStepModel step_model(table);
    const NBest found =
        search(step_model, {.start = golden()["start"], .eos = golden()["eos"]}, std::span(&request, 1))
            .at(0);
    const json& hypotheses = expected["hypotheses"];
    ASSERT_EQ(found.size(), hypotheses.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].ids, hypotheses[i]["ids"].get<std::vector<int32_t>>()) << searches << " " << i;
      if (options.beam > 1) {
        EXPECT_NEAR(found[i].score, hypotheses[i]["score"].get<double>(), 2e-5) << searches;
      }
      for (size_t t = 0; t < request.prefix.size(); ++t)
        EXPECT_EQ(found[i].token_log_probabilities[t], 0) << "a prefix costs nothing";
    }
    ++searches;
  }
  EXPECT_GE(searches, 60);
}

TEST(Controls, DistributionsAreThoseOfTransformers) {
  for (const json& expected : golden()["distributions"]) {
    auto values = golden()["logits"].get<std::vector<float>>();
    const Sampling options{.temperature = expected["temperature"],
                           .top_k = expected["top_k"],
                           .top_p = expected["top_p"],
                           .min_p = expected["min_p"]};
    ASSERT_TRUE(shape_distribution(values, options));
    const auto probabilities = expected["probabilities"].get<std::vector<float>>();
    ASSERT_EQ(values.size(), probabilities.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], probabilities[i], 1e-6) << expected["top_p"] << " " << i;
  }
}

// The definition: a stable sort of all tokens.
TEST(Sampling, TopPKeepsTheSmallestSetOfTheLikeliestTokens) {
  RandomStream random(5, 1);
  for (const size_t size : {1u, 64u, 65u, 500u}) {
    for (const int levels : {2, 40, 1 << 20}) {  // ties go to the lower id
      for (const double p : {1e-6, 0.1, 0.5, 0.97, 0.999999}) {
        std::vector<float> logits(size);
        for (float& x : logits)
          x = std::floor(random.uniform() * static_cast<float>(levels)) * 8 / static_cast<float>(levels);
        std::vector<float> found = logits, expected = logits;
        shape_distribution(found, {.top_p = p});
        shape_distribution(expected, {});
        std::vector<size_t> order(size);
        std::iota(order.begin(), order.end(), size_t{0});
        std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return expected[i]; });
        double sum = 0;
        for (const size_t i : order) {
          const double before = sum;
          sum += static_cast<double>(expected[i]);
          if (before >= p) expected[i] = 0;
        }
        const double kept = std::accumulate(expected.begin(), expected.end(), 0.0);
        for (float& x : expected) x = static_cast<float>(static_cast<double>(x) / kept);
        EXPECT_EQ(found, expected) << size << " tokens, " << levels << " levels, p " << p;
      }
    }
  }
}

TEST(Sampling, DrawsAsOftenAsTheModelSays) {
  const RandomModel model{.seed = 2, .vocabulary = 8};
  const std::vector<double> expected = model.log_probabilities(1, {kStart});
  std::vector<int> counts(8);
  for (int round = 0; round < 8; ++round) {
    const Request request{.source = {1}, .key = static_cast<uint64_t>(round)};
    const NBest drawn =
        run(model, request, {.beam = 1, .nbest = 1000, .sampling = Sampling{}, .max_new_tokens = 1});
    ASSERT_EQ(drawn.size(), 1000u);
    for (const Hypothesis& hypothesis : drawn) ++counts[static_cast<size_t>(hypothesis.ids.front())];
  }
  double chi_squared = 0;
  for (size_t id = 0; id < 8; ++id) {
    const double mean = 8000 * std::exp(expected[id]);
    chi_squared += std::pow(counts[id] - mean, 2) / mean;
  }
  EXPECT_LT(chi_squared, 24.3);  // 7 degrees of freedom: exceeded by chance for one seed in a thousand
}

TEST(Sampling, DependsOnSeedAndKeyAlone) {
  const RandomModel model{.seed = 6, .vocabulary = 30, .spread = 1};
  const auto options = [](uint64_t seed) {
    return SearchOptions{
        .beam = 1, .nbest = 3, .sampling = Sampling{.top_p = 0.95, .seed = seed}, .max_new_tokens = 11};
  };
  std::vector<Request> requests;
  for (uint64_t key = 0; key < 6; ++key) requests.push_back({.source = {5}, .key = key});
  RandomStepModel step_model(model);
  const std::vector<NBest> together = search(step_model, kSpecial, with_options(requests, options(1)));
  std::set<std::vector<int32_t>> different;
  for (uint64_t key = 0; key < 6; ++key) {
    const NBest alone = run(model, requests[key], options(1), 5);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(alone[i].ids, together[key][i].ids);
      EXPECT_EQ(alone[i].score, together[key][i].score);
      EXPECT_LE(alone[i].score, alone[0].score);
      different.insert(alone[i].ids);
      float sum = 0;
      std::vector<int32_t> tokens{kStart};
      for (size_t t = 0; t < alone[i].ids.size(); ++t) {
        const bool forced = !alone[i].complete && t + 1 == alone[i].ids.size();
        if (!forced) {
          EXPECT_NEAR(alone[i].token_log_probabilities[t],
                      model.log_probabilities(5, tokens)[static_cast<size_t>(alone[i].ids[t])], 1e-6);
        }
        sum += alone[i].token_log_probabilities[t];
        tokens.push_back(alone[i].ids[t]);
      }
      EXPECT_EQ(static_cast<float>(alone[i].log_probability), sum);
    }
  }
  EXPECT_GE(different.size(), 15u) << "samples and keys know nothing of each other";
  EXPECT_NE(run(model, requests[0], options(2), 5)[0].ids, together[0][0].ids);
}

TEST(Sampling, OfTheLikeliestTokenAloneIsGreedySearch) {
  const RandomModel model{.seed = 7, .vocabulary = 20};
  for (uint64_t sentence = 0; sentence < 5; ++sentence) {
    const NBest greedy = run(model, {.source = {1}}, {.beam = 1, .max_new_tokens = 14}, sentence);
    const NBest drawn =
        run(model, {.source = {1}},
            {.beam = 1, .sampling = Sampling{.temperature = 3, .top_k = 1}, .max_new_tokens = 14}, sentence);
    EXPECT_EQ(drawn.at(0).ids, greedy.at(0).ids);
    EXPECT_EQ(drawn.at(0).log_probability, greedy.at(0).log_probability);
  }
}

TEST(Sampling, ATemperatureNearZeroIsGreedy) {
  constexpr float kImpossible = -std::numeric_limits<float>::infinity();
  for (const double temperature : {1e-40, 1e-300, 1e-30, 1e-3}) {
    for (const float shift : {0.0f, 5.0f, -5.0f}) {
      std::vector<float> logits{kImpossible, shift - 1, shift, shift - 0.5f, kImpossible};
      ASSERT_TRUE(shape_distribution(logits, {.temperature = temperature}));
      EXPECT_EQ(logits, (std::vector<float>{0, 0, 1, 0, 0})) << temperature << " " << shift;
    }
  }
  std::vector<float> equal{2, kImpossible, 2, -1};
  ASSERT_TRUE(shape_distribution(equal, {.temperature = 1e-40}));
  EXPECT_EQ(equal, (std::vector<float>{0.5f, 0, 0.5f, 0}));
}

TEST(Sampling, PicksByPlace) {
  const std::vector<float> probabilities{0, 0.25f, 0, 0.5f, 0.25f, 0};
  EXPECT_EQ(pick(probabilities, 0), 1);
  EXPECT_EQ(pick(probabilities, 0.24), 1);
  EXPECT_EQ(pick(probabilities, 0.25), 3);
  EXPECT_EQ(pick(probabilities, 0.76), 4);
  EXPECT_EQ(pick(probabilities, 0.9999999999), 4);
  std::set<double> numbers;
  for (uint64_t key = 0; key < 3; ++key) {
    for (int32_t sample = 0; sample < 3; ++sample) {
      for (int position = 0; position < 3; ++position)
        numbers.insert(random_number(1, key, sample, position));
    }
  }
  EXPECT_EQ(numbers.size(), 27u);
  EXPECT_GE(*numbers.begin(), 0);
  EXPECT_LT(*numbers.rbegin(), 1);
}

TEST(Constraints, StopTokensEndAnOutput) {
  const RandomModel model{.seed = 5, .vocabulary = 9};
  SearchOptions options{.beam = 3, .nbest = 3, .max_new_tokens = 19};
  options.stop = {4, 5};
  int by_stop = 0;
  for (uint64_t sentence = 0; sentence < 10; ++sentence) {
    for (const Hypothesis& hypothesis : run(model, {.source = {1, 2, 0}}, options, sentence)) {
      const auto ends = [](int32_t id) { return id == kEos || id == 4 || id == 5; };
      EXPECT_TRUE(ends(hypothesis.ids.back()));
      EXPECT_TRUE(std::none_of(hypothesis.ids.begin(), hypothesis.ids.end() - 1, ends));
      by_stop += hypothesis.ids.back() != kEos;
    }
  }
  EXPECT_GT(by_stop, 5);
}

TEST(Constraints, AnOutputThatNothingMayFollowEndsThere) {
  const RandomModel model{.seed = 5, .vocabulary = 4, .eos_bonus = -50};
  // Every token once, and </s> forbidden: then none is left.
  for (const int beam : {1, 2}) {
    const NBest found =
        run(model, {.source = {1}}, {.beam = beam, .min_new_tokens = 9, .no_repeat_ngram = 1});
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].ids.size(), 3u) << "1 and 2 in some order; 3 is the start token";
    EXPECT_FALSE(found[0].complete);
  }
  const NBest drawn =
      run(model, {.source = {1}},
          {.beam = 1, .nbest = 4, .sampling = Sampling{}, .min_new_tokens = 9, .no_repeat_ngram = 1});
  ASSERT_EQ(drawn.size(), 4u);
  for (const Hypothesis& hypothesis : drawn) EXPECT_EQ(hypothesis.ids.size(), 3u);
}

// Digits are the tokens 4 to 8; a number has three of them.
struct ThreeDigits : Constraint {
  void apply(const StepContext& context, NextTokens& next) const override {
    if (context.output().size() < 3) {
      next.allow_only(std::vector<int32_t>{4, 5, 6, 7, 8, 99});
    } else {
      next.allow_only(context.ends);
    }
  }
};
struct Refuses : Constraint {
  void apply(const StepContext& context, NextTokens&) const override {
    if (context.output().size() == 2) throw DataError("a bad grammar");
  }
};

TEST(Constraints, OfAUserHoldInEverySearch) {
  const RandomModel model{.seed = 5, .vocabulary = 12};
  const Constraints digits{std::make_shared<ThreeDigits>()};
  for (const SearchOptions& options :
       {SearchOptions{.beam = 1}, SearchOptions{.beam = 4, .nbest = 4, .length_penalty = 0},
        SearchOptions{.nbest = 3, .alternatives = true},
        SearchOptions{.beam = 1, .nbest = 5, .sampling = Sampling{.top_p = 0.9}}}) {
    for (const bool translates : {true, false}) {  // or continues a prompt
      for (const bool has_prefix : {false, true}) {
        Request request{.source = {1, 2}, .options = options};
        request.options.constraints = digits;
        if (has_prefix) request.prefix = {9, 10};
        RandomStepModel step_model(model);
        const SpecialIds special{.start = translates ? std::optional(kStart) : std::nullopt, .eos = kEos};
        const NBest found = search(step_model, special, std::span(&request, 1)).at(0);
        EXPECT_EQ(std::ssize(found), options.nbest);
        for (const Hypothesis& hypothesis : found) {
          const size_t prefix = request.prefix.size();
          ASSERT_EQ(hypothesis.ids.size(), prefix + 4);
          EXPECT_TRUE(hypothesis.complete);
          std::vector<int32_t> tokens = {translates ? kStart : 2};
          for (size_t i = 0; i < hypothesis.ids.size(); ++i) {
            const int32_t id = hypothesis.ids[i];
            if (i >= prefix) {
              EXPECT_TRUE(i < prefix + 3 ? id >= 4 && id <= 8 : id == kEos) << id << " at " << i;
              EXPECT_NEAR(hypothesis.token_log_probabilities[i],
                          model.log_probabilities(1, tokens)[static_cast<size_t>(id)], 1e-5);
            }
            tokens.push_back(id);
          }
        }
      }
    }
  }
}

TEST(Constraints, OfAUserAndOfTheOptionsGiveTheSameBits) {
  struct Never : Constraint {
    explicit Never(int32_t forbidden) : id(forbidden) {}
    void apply(const StepContext&, NextTokens& next) const override {
      for (const int32_t one : {id, -1, 12}) next.forbid(one);
      EXPECT_FALSE(next.allows(id) || next.allows(-1) || next.allows(12));
      EXPECT_TRUE(next.allows(kEos));
      EXPECT_EQ(next.vocabulary(), 12);
    }
    int32_t id;
  };
  const RandomModel model{.seed = 8, .vocabulary = 12, .eos_bonus = -5};
  for (SearchOptions options : {SearchOptions{.beam = 1}, SearchOptions{.beam = 3, .nbest = 3},
                                SearchOptions{.beam = 1, .nbest = 4, .sampling = Sampling{}}}) {
    const NBest free = run(model, {.source = {1}}, options);
    const int32_t id = free[0].ids.front();
    options.suppress_tokens = {id};
    const NBest suppressed = run(model, {.source = {1}}, options);
    options.suppress_tokens = {};
    options.constraints = {std::make_shared<Never>(id)};
    EXPECT_TRUE(same_bits(run(model, {.source = {1}}, options), suppressed));
    EXPECT_FALSE(same_bits(free, suppressed));
  }
}

TEST(Constraints, ThatThrowOrAreNullEndTheirRequest) {
  const RandomModel model{.seed = 8, .vocabulary = 12, .eos_bonus = -50};
  EXPECT_THROW(run(model, {.source = {1}}, {.constraints = {std::make_shared<Refuses>()}}), DataError);
  EXPECT_THROW(run(model, {.source = {1}}, {.constraints = {nullptr}}), UsageError);
  const NBest found =
      run(model, {.source = {1}}, {.min_new_tokens = 4, .constraints = {std::make_shared<ThreeDigits>()}});
  EXPECT_EQ(found[0].ids.size(), 4u) << "a contradiction: the end is forbidden and alone allowed";
  EXPECT_FALSE(found[0].complete);
}

TEST(Prefix, ThatCannotBeIsRefused) {
  const RandomModel model{.seed = 5, .vocabulary = 9};
  const SearchOptions options{.max_new_tokens = 5};
  const NBest found = run(model, {.source = {1}, .prefix = {4, 4, 4, 4}}, options);
  EXPECT_LE(found[0].ids.size(), 10u) << "the prefix does not count, nor does the end";
  EXPECT_THROW(run(model, {.source = {1}, .prefix = {9}}, options), UsageError);
  EXPECT_THROW(run(model, {.source = {1}, .prefix = {-1}}, options), UsageError);
  EXPECT_THROW(run(model, {.source = {1}, .prefix = {2, kEos}}, options), UsageError);
}

TEST(Options, ThatContradictAreRefused) {
  const Sampling good;
  for (const SearchOptions& options :
       {SearchOptions{.beam = 4, .sampling = good},
        SearchOptions{.beam = 1, .sampling = Sampling{.temperature = 0}},
        SearchOptions{.beam = 1, .sampling = Sampling{.top_k = -1}},
        SearchOptions{.beam = 1, .sampling = Sampling{.top_p = 0}},
        SearchOptions{.beam = 1, .sampling = Sampling{.min_p = 1.5}}, SearchOptions{.no_repeat_ngram = -1},
        SearchOptions{.repetition_penalty = 0}, SearchOptions{.bad_words = {{}}}}) {
    EXPECT_THROW(options.validate(), UsageError);
  }
}

// The kept, finished and pruned candidates are consistent with the result.
TEST(Trace, TellsHowTheResultCameAbout) {
  const RandomModel model{.seed = 12, .vocabulary = 11, .eos_bonus = 1};
  for (uint64_t sentence = 0; sentence < 10; ++sentence) {
    SearchTrace trace;
    const SearchOptions options{.beam = 3, .nbest = 3, .length_penalty = 0.7, .max_new_tokens = 13};
    const Request request{.source = {1, 2, 0}, .prefix = {5}, .trace = &trace};
    const NBest found = run(model, request, options, sentence);
    std::vector<std::vector<int32_t>> kept{{5}};
    std::vector<std::pair<double, std::vector<int32_t>>> finished;
    for (const auto& step : trace.steps) {
      EXPECT_TRUE(std::ranges::is_sorted(step, std::ranges::greater_equal(), &TraceEntry::total));
      std::vector<std::vector<int32_t>> next;
      for (const TraceEntry& entry : step) {
        std::vector<int32_t> tokens = kept.at(static_cast<size_t>(entry.row));
        tokens.push_back(entry.id);
        EXPECT_NEAR(entry.score, entry.total / entry.penalty, 1e-5);
        EXPECT_NEAR(entry.penalty, std::pow(static_cast<double>(tokens.size()) - 1, 0.7), 1e-9);
        if (entry.fate == TraceEntry::Fate::kept) next.push_back(tokens);
        if (entry.fate == TraceEntry::Fate::finished) finished.emplace_back(entry.score, tokens);
      }
      EXPECT_LE(next.size(), 3u);
      kept = next;
    }
    for (const Hypothesis& hypothesis : found) {
      if (!hypothesis.complete) continue;
      EXPECT_TRUE(std::ranges::count(finished, std::pair(hypothesis.score, hypothesis.ids)) == 1);
    }
  }
}

}  // namespace
}  // namespace qkv::search

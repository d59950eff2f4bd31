// Logits in a device's memory: searches find what they find on the host, from the best tokens of each row.

#include "qkv/search/engine/selection.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "qkv/search/candidates.h"
#include "qkv/search/engine/engine.h"
#include "qkv/tensor/device_memory.h"
#include "tests/search/random_step_model.h"
#include "tests/support/devices.h"

namespace qkv::search {
namespace {

using testing::RandomModel;
using testing::RandomStepModel;

constexpr SpecialIds kSpecialIds{.start = 3, .eos = 0};

// The random model on a device.
class ModelOnDevice : public RandomStepModel {
 public:
  ModelOnDevice(const RandomModel& model, Device device) : RandomStepModel(model), device_(device) {}
  Tensor step(const Tensor& ids) override { return from_host(RandomStepModel::step(ids), device_); }

 private:
  Device device_;
};

std::vector<Request> requests_with(const SearchOptions& options) {
  std::vector<Request> requests;
  for (int32_t sentence = 0; sentence < 6; ++sentence) {
    requests.push_back(
        {.source = {sentence, 1, 1}, .options = options, .key = static_cast<uint64_t>(sentence)});
    if (sentence % 3 == 1) requests.back().prefix = {5, 7};
  }
  return requests;
}

void expect_same(const std::vector<NBest>& found, const std::vector<NBest>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t s = 0; s < found.size(); ++s) {
    ASSERT_EQ(found[s].size(), expected[s].size());
    for (size_t i = 0; i < found[s].size(); ++i) {
      EXPECT_EQ(found[s][i].ids, expected[s][i].ids) << "sentence " << s << ", output " << i;
      EXPECT_NEAR(found[s][i].score, expected[s][i].score, 1e-5);
    }
  }
}

TEST(Selection, FindsOnADeviceWhatItFindsOnTheHost) {
  const RandomModel model{.seed = 8, .vocabulary = 90, .eos_bonus = 1.5f};
  const std::vector<SearchOptions> kinds{
      {.beam = 4, .nbest = 3, .max_new_tokens = 24},
      {.beam = 1, .max_new_tokens = 19},
      {.beam = 4, .max_new_tokens = 24, .no_repeat_ngram = 2},
      {.beam = 2, .min_new_tokens = 6, .suppress_tokens = {4, 17, 30}, .stop = {9}},
      {.beam = 2, .nbest = 3, .alternatives = true, .max_new_tokens = 11},
      {.beam = 3, .coverage_penalty = 0.4, .max_new_tokens = 11},
      // With all logits:
      {.beam = 1, .nbest = 3, .sampling = Sampling{.top_p = 0.9, .seed = 4}, .max_new_tokens = 14},
      {.beam = 1, .max_new_tokens = 17, .repetition_penalty = 1.4f},
      {.beam = 3, .max_new_tokens = 12, .suppress_tokens = {4}, .renormalize = true},
      {.beam = 100, .nbest = 2, .max_new_tokens = 3}};
  std::vector<Request> mixed;
  for (const SearchOptions& options : kinds) {
    const std::vector<Request> requests = requests_with(options);
    mixed.push_back(requests.front());
    RandomStepModel on_host(model);
    const std::vector<NBest> expected = search(on_host, kSpecialIds, requests);
    qkv::testing::for_each_device([&](Device device) {
      ModelOnDevice on_device(model, device);
      const int64_t waits = device_waits();
      expect_same(search(on_device, kSpecialIds, requests), expected);
      EXPECT_EQ(device_waits() - waits, device == Device::cpu ? 0 : on_device.steps);
    });
  }
  RandomStepModel on_host(model);
  const std::vector<NBest> expected = search(on_host, kSpecialIds, mixed);
  qkv::testing::for_each_device([&](Device device) {
    ModelOnDevice on_device(model, device);
    expect_same(search(on_device, kSpecialIds, mixed), expected);
  });
}

// The step of a row with these best tokens; the last stands for all beyond. None: all logits are needed.
std::optional<RowStep> step_of(const SearchOptions& options, std::vector<kernels::ScoredToken> best,
                               int64_t vocabulary) {
  Request request{.source = {1}, .options = options};
  const auto hypotheses = make_hypotheses(request, kSpecialIds);
  const auto need = best_tokens_needed(*hypotheses, 0, vocabulary);
  if (!need) return std::nullopt;
  best.resize(static_cast<size_t>(need->count), best.back());
  return step_of_best(*hypotheses, 0, *need, best, vocabulary);
}

TEST(Selection, NeedsAllLogitsWhereTheBestTokensDoNotSuffice) {
  const std::vector<kernels::ScoredToken> best{{-0.5f, 7}, {-1.0f, 2}, {-2.0f, 5}, {-9.0f, 11}};
  const SearchOptions greedy{.beam = 1};
  ASSERT_TRUE(step_of(greedy, best, 1000));
  EXPECT_EQ(step_of(greedy, best, 1000)->candidates.at(0).id, 7);
  // Tokens beyond may be as good as the last one that is wanted, and have smaller ids.
  EXPECT_FALSE(step_of(greedy, {{-0.5f, 7}}, 1000));
  // All tokens of the vocabulary are known.
  EXPECT_TRUE(step_of(greedy, {{-0.5f, 0}, {-0.5f, 1}, {-0.5f, 2}}, 3));
  // Forbidden tokens are not candidates.
  EXPECT_EQ(step_of({.beam = 1, .suppress_tokens = {7, 2}}, best, 1000)->candidates.at(0).id, 5);
  EXPECT_FALSE(step_of({.beam = 1, .sampling = Sampling{}}, best, 1000));
  EXPECT_FALSE(step_of({.beam = 1, .repetition_penalty = 1.5f}, best, 1000));
  SearchOptions many{.beam = 1};
  for (int32_t id = 0; id < 300; ++id) many.suppress_tokens.push_back(id);
  EXPECT_FALSE(step_of(many, best, 1000));
}

TEST(Selection, NamesARowThatIsNotFinite) {
  qkv::testing::for_each_device([&](Device device) {
    Request request{.source = {1}, .options = {.beam = 2}};
    const auto good = make_hypotheses(request, kSpecialIds), bad = make_hypotheses(request, kSpecialIds);
    const std::vector<RunningRow> rows{{.hypotheses = *good}, {.hypotheses = *bad}};
    std::vector<float> logits(40, 0.25f);
    logits[3] = 2;
    logits[25] = std::numeric_limits<float>::quiet_NaN();
    const auto results = select_candidates(from_host(Tensor::from(logits, {2, 20}), device), rows, 20);
    EXPECT_FALSE(results.at(0).error);
    EXPECT_EQ(results.at(0).step.candidates.at(0).id, 3);
    EXPECT_TRUE(results.at(1).error);
  });
}

}  // namespace
}  // namespace qkv::search

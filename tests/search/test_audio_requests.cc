// Requests of audio, whose sources come encoded; Request::start and Request::on_prefix.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/search/engine/engine.h"
#include "qkv/search/transformer.h"
#include "tests/search/random_step_model.h"
#include "tests/search/random_transformer.h"
#include "tests/support/devices.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace qkv::search {
namespace {

using qkv::testing::expect_throw;
using qkv::testing::random_tensor;
using testing::RandomModel;
using testing::RandomStepModel;

constexpr SpecialIds kAudioSpecial{.start = 22, .eos = 0};
constexpr int64_t kAudioVocabulary = 23;

models::TransformerConfig audio_config() {
  models::TransformerConfig config = testing::small_config();
  config.source_vocabulary = 0;
  config.tying = models::Tying::two_way;
  config.positions = nn::PositionKind::learned;
  config.mel_bins = 6;
  config.source_positions = 20;
  return config;
}

std::shared_ptr<const models::Transformer> audio_model() {
  return testing::random_transformer(audio_config(), 17);
}

// A source of this many rows from the encoder.
Request audio_request(const models::Transformer& model, int64_t rows, uint64_t seed,
                      const SearchOptions& options) {
  nn::ForwardContext context;
  const Tensor frames = random_tensor({2 * rows, 6}, seed);
  Request request{
      .source = std::vector<int32_t>(static_cast<size_t>(rows), -1),
      .rows = {.values = model.encode_audio(frames, Offsets::uniform(1, 2 * rows), context).values.value()},
      .options = options,
      .key = seed};
  request.options.max_source_factor = 0;
  return request;
}

NBest decoded_alone(const std::shared_ptr<const models::Transformer>& model, const Request& request) {
  return search(*make_step_model({model}), kAudioSpecial, std::span(&request, 1)).at(0);
}

// log P of each token after `input`, in one run of the decoder, in double precision.
std::vector<double> log_probabilities_after(const models::Transformer& model, const Request& request,
                                            const std::vector<int32_t>& input) {
  nn::ForwardContext context;
  const nn::Memory memory{Variable(request.rows.values), Offsets::uniform(1, request.rows.values.rows())};
  const Tensor logits = model.logits()(model.decode(Ragged::from<int32_t>({input}), memory, context)).value();
  const float* last = logits.data() + (logits.rows() - 1) * kAudioVocabulary;
  double sum = 0;
  for (int64_t id = 0; id < kAudioVocabulary; ++id) sum += std::exp(double{last[id]});
  std::vector<double> result;
  for (int64_t id = 0; id < kAudioVocabulary; ++id) result.push_back(last[id] - std::log(sum));
  return result;
}

std::vector<Request> audio_requests(const models::Transformer& model) {
  const std::vector<SearchOptions> kinds{
      {.beam = 1, .max_new_tokens = 12},
      {.beam = 4, .nbest = 3, .max_new_tokens = 15},
      {.beam = 1, .nbest = 3, .sampling = Sampling{.temperature = 1.2, .seed = 5}, .max_new_tokens = 14},
      {.beam = 2, .nbest = 2, .max_new_tokens = 9, .suppress_tokens = {4, 7, 9}}};
  std::vector<Request> requests;
  for (size_t i = 0; i < 9; ++i) {
    requests.push_back(
        audio_request(model, 1 + static_cast<int64_t>(7 * i % 20), 40 + i, kinds[i % kinds.size()]));
    if (i % 3 == 1) requests.back().prefix = {5, 7};
    if (i % 2 == 1) requests.back().start = static_cast<int32_t>(1 + i);
  }
  return requests;
}

// An output's tokens have the log-probabilities of a run of the decoder that begins with the start token.
TEST(AudioRequests, OutputsHaveTheProbabilitiesOfFullRuns) {
  const auto model = audio_model();
  for (const Request& request : audio_requests(*model)) {
    const NBest found = decoded_alone(model, request);
    ASSERT_FALSE(found.empty());
    for (const Hypothesis& one : found) {
      std::vector<int32_t> input{request.start.value_or(22)};
      for (size_t i = 0; i < one.ids.size(); ++i) {
        const double expected =
            log_probabilities_after(*model, request, input)[static_cast<size_t>(one.ids[i])];
        const bool counts = i >= request.prefix.size() && (one.complete || i + 1 < one.ids.size());
        if (counts && !request.options.sampling) {
          EXPECT_NEAR(one.token_log_probabilities[i], expected, 1e-4) << i;
        }
        input.push_back(one.ids[i]);
      }
    }
    if (request.options.beam > 1 || request.options.sampling) continue;
    std::vector<int32_t> input{request.start.value_or(22)};
    for (const int32_t id : found.front().ids) {
      std::vector<double> next = log_probabilities_after(*model, request, input);
      const auto place = input.size() - 1;
      if (place >= request.prefix.size() && place < 12) {
        EXPECT_EQ(id, std::ranges::max_element(next) - next.begin());
      }
      input.push_back(id);
    }
  }
}

TEST(AudioRequests, HaveTheBitsThatTheyHaveAlone) {
  const auto model = audio_model();
  const std::vector<Request> requests = audio_requests(*model);
  std::vector<NBest> expected;
  for (const Request& request : requests) expected.push_back(decoded_alone(model, request));
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const int before = threads();
  for (int round = 0; round < 6; ++round) {
    set_threads(1 + round % 2);
    RandomStream random(static_cast<uint64_t>(round));
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    Engine engine(make_step_model({model}), kAudioSpecial, {.batch_tokens = round < 3 ? 0 : 30});
    std::map<uint64_t, size_t> request_of;
    size_t submitted = 0, ended = 0;
    while (ended < requests.size()) {
      // All at once, or some between steps.
      for (uint64_t arrivals = round == 0 ? 9 : random.below(3); arrivals > 0 && submitted < order.size();
           --arrivals) {
        const size_t i = order[submitted++];
        request_of[engine.submit(requests[i])] = i;
      }
      for (const Decoded& decoded : engine.step()) {
        ++ended;
        const size_t i = request_of.at(decoded.request_id);
        EXPECT_FALSE(decoded.error);
        EXPECT_TRUE(testing::same_bits(decoded.hypotheses, expected[i])) << "round " << round << ", " << i;
      }
    }
  }
  set_threads(before);
}

TEST(AudioRequests, RowsThatDoNotFitAreRefused) {
  const auto model = audio_model();
  Engine engine(make_step_model({model}), kAudioSpecial);
  const Request good = audio_request(*model, 4, 1, {.beam = 1, .max_new_tokens = 3});
  const auto refused = [&](const auto& change) {
    Request bad = good;
    change(bad);
    expect_throw<UsageError>("search: source: expected ids below 0 and the encoder's result, [",
                             [&] { engine.submit(bad); });
  };
  refused([](Request& bad) { bad.source[2] = 3; });
  refused([](Request& bad) { bad.source.pop_back(); });
  refused([](Request& bad) { bad.source.push_back(-1); });
  refused([](Request& bad) { bad.rows = {}; });
  refused([](Request& bad) { bad.rows.values = random_tensor({4, 15}, 1); });
  refused([](Request& bad) { bad.rows.values = random_tensor({3, 16}, 1); });
  if (qkv::testing::kHasReference)
    refused([](Request& bad) { bad.rows.values = from_host(bad.rows.values, Device::reference); });
  expect_throw<UsageError>("search: expected a source with at least one token, found none", [&] {
    Request bad = good;
    bad.source.clear();
    engine.submit(bad);
  });
  EXPECT_TRUE(engine.idle());
  engine.submit(good);
  // Nor has a model of tokens use for rows.
  const auto of_tokens = testing::random_transformer(testing::small_config(), 1);
  Engine other(make_step_model({of_tokens}), kAudioSpecial);
  Request request{.source = {3, 4, 5, 0}, .rows = good.rows};
  expect_throw<UsageError>("search: rows: expected none, as sources are tokens, found some",
                           [&] { other.submit(request); });
  request.rows = {};
  other.submit(request);
}

// Notes the histories that it sees.
class Histories : public Constraint {
 public:
  void apply(const StepContext& context, NextTokens& /*next*/) const override {
    const std::lock_guard lock(mutex_);
    all_.emplace_back(context.history.begin(), context.history.end());
  }
  const std::vector<std::vector<int32_t>>& all() const { return all_; }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<int32_t>> all_;
};

TEST(RequestStart, TakesThePlaceOfTheModels) {
  const RandomModel model{.seed = 4, .vocabulary = 25, .eos_bonus = -30};
  for (const std::optional<int32_t> start : {std::optional<int32_t>(), std::optional<int32_t>(11)}) {
    const auto histories = std::make_shared<Histories>();
    RandomStepModel step_model(model);
    Request request{
        .source = {6, 1}, .options = {.beam = 1, .max_new_tokens = 3}, .start = start, .prefix = {5}};
    request.options.constraints = {histories};
    const NBest found = search(step_model, kAudioSpecial, std::span(&request, 1)).at(0);
    std::vector<int32_t> history{start.value_or(22), 5};
    for (size_t i = 1; i <= 3; ++i) {
      const std::vector<double> next = model.log_probabilities(6, history);
      const auto best = static_cast<int32_t>(std::ranges::max_element(next) - next.begin());
      EXPECT_EQ(found.front().ids.at(i), best);
      EXPECT_EQ(histories->all().at(i - 1), history);
      history.push_back(best);
    }
    // Rules read it, too.
    const int32_t first = found.front().ids[1];
    request.options.constraints = {};
    request.options.bad_words = {{start.value_or(22), 5, first}};
    RandomStepModel again(model);
    EXPECT_NE(search(again, kAudioSpecial, std::span(&request, 1)).at(0).front().ids[1], first);
    request.options.bad_words = {{start ? 22 : 11, 5, first}};
    RandomStepModel others(model);
    EXPECT_EQ(search(others, kAudioSpecial, std::span(&request, 1)).at(0).front().ids[1], first);
  }
}

TEST(RequestStart, IsRefusedOutsideTheVocabularyAndAfterPrompts) {
  const RandomModel model{.vocabulary = 25};
  Engine engine(std::make_shared<RandomStepModel>(model), kAudioSpecial);
  for (const int32_t start : {-1, 25, 1 << 30}) {
    expect_throw<UsageError>(concat("start: expected an id from 0 to 24, found ", start),
                             [&] { engine.submit({.source = {1}, .start = start}); });
  }
  engine.submit({.source = {1}, .start = 24});
  Engine language(std::make_shared<RandomStepModel>(model), {.start = std::nullopt, .eos = 0});
  expect_throw<UsageError>("start: expected none, as outputs continue a prompt, found 3",
                           [&] { language.submit({.source = {1}, .start = 3}); });
}

// The random model, whose logits are in a device's memory.
class LogitsOnDevice : public RandomStepModel {
 public:
  LogitsOnDevice(const RandomModel& model, Device device) : RandomStepModel(model), device_(device) {}
  Tensor step(const Tensor& ids) override { return from_host(RandomStepModel::step(ids), device_); }

 private:
  Device device_;
};

// Of the prefix's tokens and the one after it, before rules; once, whatever follows.
TEST(RequestOnPrefix, HasTheProbabilitiesOfEachPlace) {
  const RandomModel model{.seed = 9, .vocabulary = 30, .spread = 3};
  const std::vector<SearchOptions> kinds{
      {.beam = 1, .max_new_tokens = 8, .suppress_tokens = {2, 3, 6}, .repetition_penalty = 1.5f},
      {.beam = 3, .nbest = 2, .max_new_tokens = 8, .bad_words = {{5}}},
      {.beam = 1,
       .nbest = 4,
       .sampling = Sampling{.temperature = 0.3, .top_k = 4, .seed = 2},
       .max_new_tokens = 8}};
  qkv::testing::for_each_device([&](Device device) {
    for (const SearchOptions& options : kinds) {
      for (const std::vector<int32_t>& prefix : {std::vector<int32_t>{}, {7}, {7, 12, 4}}) {
        std::mutex mutex;
        std::map<int64_t, std::vector<float>> places;
        Request watched{.source = {6, 1}, .options = options, .prefix = prefix, .key = 1};
        watched.on_prefix = [&](int64_t place, std::span<const float> log_probabilities) {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(
              places.emplace(place, std::vector(log_probabilities.begin(), log_probabilities.end())).second)
              << "twice at " << place;
        };
        Request other = watched;  // beside it
        other.source = {8, 1};
        other.on_prefix = {};
        other.prefix = {9};
        LogitsOnDevice step_model(model, device);
        const std::vector<NBest> found = search(step_model, kAudioSpecial, std::vector{other, watched});
        ASSERT_EQ(places.size(), prefix.size() + 1);
        std::vector<int32_t> tokens{22};
        for (size_t place = 0; place <= prefix.size(); ++place) {
          const std::vector<double> expected = model.log_probabilities(6, tokens);
          const std::vector<float>& seen = places.at(static_cast<int64_t>(place));
          ASSERT_EQ(seen.size(), expected.size());
          double sum = 0;
          for (size_t id = 0; id < seen.size(); ++id) {
            EXPECT_NEAR(seen[id], expected[id], 1e-5);
            sum += std::exp(double{seen[id]});
          }
          EXPECT_NEAR(sum, 1, 1e-5);
          if (place < prefix.size()) tokens.push_back(prefix[place]);
        }
        // It changes no result.
        watched.on_prefix = {};
        LogitsOnDevice unwatched(model, device);
        const std::vector<NBest> expected = search(unwatched, kAudioSpecial, std::vector{other, watched});
        for (size_t i = 0; i < 2; ++i)
          for (size_t n = 0; n < expected[i].size(); ++n) EXPECT_EQ(found[i].at(n).ids, expected[i][n].ids);
      }
    }
  });
}

TEST(RequestOnPrefix, ItsErrorEndsItsRequest) {
  const RandomModel model{.seed = 9, .vocabulary = 30, .eos_bonus = -30};
  for (const int64_t bad : {0, 1, 2}) {
    Engine engine(std::make_shared<RandomStepModel>(model), kAudioSpecial);
    Request request{.source = {6, 1}, .options = {.beam = 2, .max_new_tokens = 3}, .prefix = {7, 12}};
    const uint64_t good = engine.submit(request);
    request.on_prefix = [bad](int64_t place, std::span<const float>) {
      if (place == bad) throw DataError("a bad place");
    };
    engine.submit(request);
    size_t ended = 0;
    while (!engine.idle()) {
      for (const Decoded& decoded : engine.step()) {
        ++ended;
        EXPECT_EQ(decoded.error == nullptr, decoded.request_id == good);
        if (decoded.error) {
          expect_throw<DataError>("a bad place", [&] { std::rethrow_exception(decoded.error); });
        } else {
          EXPECT_EQ(decoded.hypotheses.front().ids.size(), 2u + 3 + 1);
        }
      }
    }
    EXPECT_EQ(ended, 2u);
  }
}

}  // namespace
}  // namespace qkv::search

// Search: invalid options, ids and models.

#include <gtest/gtest.h>

#include <climits>
#include <limits>

#include "qkv/search/engine/engine.h"
#include "qkv/search/ensemble_step_model.h"
#include "qkv/search/language.h"
#include "qkv/search/language_step_model.h"
#include "qkv/search/shortlist.h"
#include "qkv/search/transformer.h"
#include "qkv/search/transformer_step_model.h"
#include "tests/support/misuse.h"

namespace {

using namespace qkv;
using namespace qkv::search;
using namespace qkv::testing;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

// Six tokens, equally likely except the last input token, which is least likely.
class Uniform : public StepModel {
 public:
  int64_t vocabulary() const override { return 6; }
  void admit(std::span<const std::unique_ptr<Source>>) override {}
  Tensor step(const Tensor& ids) override {
    Tensor logits = Tensor::zeros({ids.numel(), 6});
    for (int64_t row = 0; row < ids.numel(); ++row) logits.at(row, ids.at<int32_t>(row)) = -5;
    return logits;
  }
  void reorder(std::span<const int32_t>, const Offsets&) override {}
};

constexpr SpecialIds kSpecial{.start = 0, .eos = 5};

std::vector<int32_t> found(const Request& request) {
  Uniform model;
  return qkv::search::search(model, kSpecial, std::span(&request, 1)).at(0).at(0).ids;
}

void expect_refused(const char* field, const SearchOptions& options) {
  THROWS(field, options.validate());
  THROWS(field, found({.source = {1, 5}, .options = options}));
}

TEST(MisusedSearch, Options) {
  for (const int number : {0, -1, 1025, INT_MAX, INT_MIN}) {
    expect_refused("beam", {.beam = number});
    expect_refused("nbest", {.nbest = number});
    expect_refused("nbest", {.nbest = number, .alternatives = true});
  }
  expect_refused("nbest", {.beam = 2, .nbest = 3});
  expect_refused("beam", {.beam = 2, .sampling = Sampling{}});
  expect_refused("alternatives", {.beam = 1, .sampling = Sampling{}, .alternatives = true});
  for (const double number : {0.0, -1.0, kNan, kInfinity})
    expect_refused("temperature", {.beam = 1, .sampling = Sampling{.temperature = number}});
  for (const int number : {-1, INT_MIN})
    expect_refused("top_k", {.beam = 1, .sampling = Sampling{.top_k = number}});
  for (const double number : {-0.1, 1.5, kNan, kInfinity}) {
    expect_refused("top_p", {.beam = 1, .sampling = Sampling{.top_p = number}});
    expect_refused("min_p", {.beam = 1, .sampling = Sampling{.min_p = number}});
  }
  for (const double number : {kNan, kInfinity, -kInfinity}) {
    expect_refused("length_penalty", {.length_penalty = number});
    expect_refused("coverage_penalty", {.coverage_penalty = number});
    expect_refused("max_source_factor", {.max_source_factor = number});
    expect_refused("repetition_penalty", {.repetition_penalty = static_cast<float>(number)});
  }
  for (const int number : {0, -1, INT_MIN, INT_MAX}) {
    expect_refused("max_new_tokens", {.max_new_tokens = number});
    if (number > 0) continue;
    expect_refused("max_source_extra", {.max_source_extra = number});
    if (number == 0) continue;
    expect_refused("min_new_tokens", {.min_new_tokens = number});
    expect_refused("no_repeat_ngram", {.no_repeat_ngram = number});
  }
  expect_refused("min_new_tokens", {.max_new_tokens = 3, .min_new_tokens = 4});
  expect_refused("sequence", {.bad_words = {{}}});
  for (const int64_t number : {int64_t{-1}, kLowest}) {
    THROWS("source_tokens", SearchOptions{}.limit(number));
    THROWS("prefix_tokens", SearchOptions{}.limit(3, number));
    Request request;
    THROWS("positions", fit_positions(request, number, 1));
    THROWS("taken", fit_positions(request, 5, number));
  }
  THROWS("prefix_tokens", SearchOptions{}.limit(3, kHuge));
}

TEST(MisusedSearch, Ids) {
  for (const int32_t id : {-1, 6, INT_MAX, INT_MIN}) {
    THROWS("prefix", found({.source = {1, 5}, .prefix = {1, id}}));
    Uniform model;
    THROWS("</s>",
           qkv::search::search(model, {.start = 0, .eos = id}, std::vector<Request>{{.source = {1}}}));
  }
  THROWS("prefix", found({.source = {1, 5}, .prefix = {1, 5}}));
  THROWS("prompt", [] {
    Uniform model;
    qkv::search::search(model, {.start = std::nullopt, .eos = 5}, std::vector<Request>{{}});
  }());
  // Ids outside the vocabulary have no effect.
  const SearchOptions plain{.beam = 1, .max_new_tokens = 6};
  const std::vector<int32_t> expected = found({.source = {1, 5}, .options = plain});
  EXPECT_EQ(expected.size(), 7u);
  SearchOptions strange = plain;
  strange.suppress_tokens = strange.stop = {-1, 6, INT_MAX, INT_MIN};
  strange.bad_words = {{-1}, {6}, {INT_MAX, INT_MIN}, {1, -1}, {-1, 1}};
  strange.no_repeat_ngram = INT_MAX;
  EXPECT_EQ(found({.source = {1, 5}, .options = strange}), expected);
  THROWS("search", found({.source = {1, 5}, .options = {.beam = 1, .suppress_tokens = {0, 1, 2, 3, 4, 5}}}));
}

TEST(MisusedSearch, Engines) {
  const auto model = [] { return std::make_shared<Uniform>(); };
  THROWS("engine", Engine(nullptr, kSpecial));
  for (const int64_t number : {int64_t{-1}, kLowest}) {
    THROWS("batch_tokens", Engine(model(), kSpecial, {.batch_tokens = number}));
    THROWS("cache_bytes", Engine(model(), kSpecial, {.cache_bytes = number}));
    THROWS("prefill_tokens", Engine(model(), kSpecial, {.prefill_tokens = number}));
  }
  Engine engine(model(), kSpecial);
  EXPECT_TRUE(engine.idle());
  EXPECT_FALSE(engine.cancel(0)) << "there is no such request";
  EXPECT_TRUE(engine.step().empty());
  THROWS("coverage_penalty", engine.submit({.source = {1, 5}, .options = {.coverage_penalty = 1}}));
  SearchTrace trace;
  THROWS("trace",
         engine.submit({.source = {1, 5}, .options = {.beam = 1, .sampling = Sampling{}}, .trace = &trace}));
  EXPECT_TRUE(engine.idle()) << "a refused request was queued";
  using Models = std::vector<std::shared_ptr<StepModel>>;
  THROWS("ensemble", EnsembleStepModel(Models{}));
  THROWS("ensemble", EnsembleStepModel(Models{model(), nullptr}));
  THROWS("search", make_step_model({}));
  THROWS("search", make_step_model({nullptr}));
  THROWS("search", special_ids(ModelList{nullptr}));
  THROWS("search", fitting(ModelList{nullptr}, {}));
  THROWS("search", search_each({nullptr}, {}));
  THROWS("search", TransformerStepModel(nullptr));
  THROWS("search", LanguageStepModel(nullptr));
  THROWS("search", generate(nullptr, {}));
}

TEST(MisusedSearch, Shortlists) {
  const std::vector<TokenPair> pairs{{.source = {0, 1}, .target = {2}}, {.source = {}, .target = {}}};
  for (const int64_t size : {int64_t{0}, int64_t{-1}, kHuge, kLowest}) {
    THROWS("shortlist", Shortlist::learn(pairs, size, 3));
    THROWS("shortlist", Shortlist::learn(pairs, 2, size));
  }
  THROWS("shortlist", Shortlist::learn({}, 2, 3));
  THROWS("shortlist", Shortlist::learn(pairs, 1, 3));
  THROWS("shortlist", Shortlist::learn(pairs, 2, 2));
  for (const int number : {0, -1, INT_MIN}) {
    THROWS("iterations", Shortlist::learn(pairs, 2, 3, {.iterations = number}));
    THROWS("per_token", Shortlist::learn(pairs, 2, 3, {.per_token = number}));
    THROWS("frequent", Shortlist::learn(pairs, 2, 3, {.frequent = number}));
  }
  const Shortlist shortlist = Shortlist::learn(pairs, 2, 3);
  const std::vector<int32_t> strange{-1, 2, 3, INT_MAX, INT_MIN};
  EXPECT_EQ(shortlist.allowed(strange, strange), std::vector<int32_t>{2});
  THROWS("", Shortlist::load("/no/such/file"));
  THROWS("", shortlist.save("/no/such/file"));
}

}  // namespace

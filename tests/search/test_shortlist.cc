#include "qkv/search/shortlist.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/io/safetensors.h"
#include "qkv/search/transformer.h"
#include "tests/search/random_step_model.h"
#include "tests/search/random_transformer.h"
#include "tests/support/quantize_model.h"

namespace qkv::search {
namespace {

using qkv::testing::quantize_model;
using testing::random_sentences;
using testing::random_transformer;
using testing::RandomModel;
using testing::RandomStepModel;
using testing::same_bits;
using testing::small_config;
using testing::with_options;

// Each source token s translates to s + 10, in random order; token 9 follows every sentence without a source.
std::vector<TokenPair> translations(int count) {
  RandomStream random(3);
  std::vector<TokenPair> pairs;
  for (int i = 0; i < count; ++i) {
    TokenPair pair;
    for (uint64_t n = 2 + random.below(5); n > 0; --n) {
      pair.source.push_back(static_cast<int32_t>(random.below(8)));
      pair.target.insert(pair.target.begin(), pair.source.back() + 10);
    }
    pair.target.push_back(9);
    pairs.push_back(pair);
  }
  return pairs;
}

TEST(Shortlist, LearnsWhatBecomesWhat) {
  const Shortlist learned = Shortlist::learn(translations(300), 8, 20, {.per_token = 1, .frequent = 1});
  for (int32_t source = 0; source < 8; ++source) {
    EXPECT_EQ(learned.allowed(std::vector{source}, std::vector<int32_t>{3}),
              (std::vector<int32_t>{3, 9, source + 10}))
        << "what follows everything is from nowhere, or from the frequent ones";
  }
  EXPECT_EQ(learned.allowed(std::vector{1, 5, 1, 99}, std::vector{-1, 20}),
            (std::vector<int32_t>{9, 11, 15}));
}

// A word's translation elsewhere explains it here too, which leaves the rest to the other word.
TEST(Shortlist, ExplainsAwayWhatAnotherWordBecomes) {
  const std::vector<TokenPair> pairs{{{0, 1}, {2, 3}}, {{1}, {2}}};
  EXPECT_EQ(Shortlist::learn(pairs, 2, 4, {.iterations = 3, .per_token = 1, .frequent = 1})
                .allowed(std::vector{0}, {}),
            (std::vector<int32_t>{2, 3}))
      << "2 is the most frequent one, and 0 becomes 3, as 1 becomes 2";
}

TEST(Shortlist, IsTheSameFromAFile) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("qkv-shortlist-" + std::to_string(::getpid()) + ".safetensors");
  const Shortlist learned = Shortlist::learn(translations(100), 8, 20, {.per_token = 3, .frequent = 2});
  learned.save(path);
  const Shortlist loaded = Shortlist::load(path);
  EXPECT_EQ(loaded.source_vocabulary(), 8);
  EXPECT_EQ(loaded.target_vocabulary(), 20);
  for (int32_t source = 0; source < 8; ++source)
    EXPECT_EQ(loaded.allowed(std::vector{source}, {}), learned.allowed(std::vector{source}, {}));

  const auto write = [&](const std::vector<int32_t>& begin, const std::vector<int32_t>& lists) {
    const auto tensor = [](const std::vector<int32_t>& ids) { return Tensor::from(ids, {std::ssize(ids)}); };
    io::write_safetensors(path, {{"begin", tensor(begin)},
                                 {"lists", tensor(lists)},
                                 {"frequent", tensor({1})},
                                 {"target_vocabulary", tensor({5})}});
    return Shortlist::load(path);
  };
  EXPECT_EQ(write({0, 1, 2}, {4, 3}).allowed(std::vector{1}, {}), (std::vector<int32_t>{1, 3}));
  EXPECT_THROW(write({0, 1, 3}, {4, 3}), DataError);
  EXPECT_THROW(write({0, 2, 1, 2}, {4, 3}), DataError);
  EXPECT_THROW(write({1, 2}, {4, 3}), DataError);
  EXPECT_THROW(write({0, 1, 2}, {4, 5}), DataError);
  EXPECT_THROW(write({0, 1, 2}, {-1, 3}), DataError);
  std::filesystem::remove(path);
  EXPECT_THROW(Shortlist::load(path), IoError);
}

TEST(Shortlist, RefusesWhatItCannotLearnFrom) {
  EXPECT_THROW(Shortlist::learn({}, 8, 20), DataError);
  EXPECT_THROW(Shortlist::learn(std::vector<TokenPair>{{{8}, {1}}}, 8, 20), DataError);
  EXPECT_THROW(Shortlist::learn(std::vector<TokenPair>{{{7}, {-1}}}, 8, 20), DataError);
  EXPECT_THROW(Shortlist::learn(translations(2), 8, 20, {.iterations = 0}), UsageError);
  EXPECT_THROW(Shortlist::learn(translations(2), 8, 20, {.per_token = 0}), UsageError);
  EXPECT_THROW(Shortlist::learn(translations(2), 8, 20, {.frequent = 0}), UsageError);
}

// A shortlist for random sentences over ids 1 to 21, with a few translations per token.
std::shared_ptr<const Shortlist> some_shortlist() {
  RandomStream random(17);
  std::vector<TokenPair> pairs;
  for (int32_t source = 1; source < 22; ++source) {
    for (int i = 0; i < 3; ++i) pairs.push_back({{source}, {static_cast<int32_t>(1 + random.below(21))}});
  }
  return std::make_shared<const Shortlist>(Shortlist::learn(pairs, 23, 23, {.per_token = 3, .frequent = 1}));
}

TEST(Shortlist, OutputsAreAsIfNothingElseWereInTheVocabulary) {
  const RandomModel model{.seed = 14, .vocabulary = 23};
  const auto shortlist = some_shortlist();
  for (int32_t sentence = 1; sentence < 9; ++sentence) {
    const Request request{.source = {sentence, 20}};
    RandomStepModel step_model(model);
    SearchOptions options{.beam = 3, .nbest = 3, .max_new_tokens = 11, .shortlist = shortlist};
    const NBest found =
        search(step_model, {.start = 2, .eos = 0}, with_options(std::span(&request, 1), options)).at(0);
    const std::vector<int32_t> allowed = shortlist->allowed(request.source, std::vector{0});
    for (const Hypothesis& one : found) {
      std::vector<int32_t> tokens{2};
      for (size_t t = 0; t < one.ids.size(); ++t) {
        EXPECT_TRUE(std::ranges::binary_search(allowed, one.ids[t]));
        if (!one.complete && t + 1 == one.ids.size()) break;
        // Normalised over the allowed tokens.
        const auto all = model.log_probabilities(static_cast<uint64_t>(sentence), tokens);
        double sum = 0;
        for (const int32_t id : allowed) sum += std::exp(all[static_cast<size_t>(id)]);
        EXPECT_NEAR(one.token_log_probabilities[t], all[static_cast<size_t>(one.ids[t])] - std::log(sum),
                    2e-6);
        tokens.push_back(one.ids[t]);
      }
    }
    options.shortlist.reset();
    options.beam = options.nbest = 1;
    const NBest free =
        search(step_model, {.start = 2, .eos = 0}, with_options(std::span(&request, 1), options)).at(0);
    const NBest only =
        search(
            step_model, {.start = 2, .eos = 0},
            with_options(
                std::span(&request, 1),
                {.beam = 1, .sampling = Sampling{.top_k = 1}, .max_new_tokens = 11, .shortlist = shortlist}))
            .at(0);
    if (std::ranges::all_of(free[0].ids,
                            [&](int32_t id) { return std::ranges::binary_search(allowed, id); })) {
      EXPECT_EQ(only[0].ids, free[0].ids);
    }
  }
  RandomStepModel other(RandomModel{.vocabulary = 22});
  EXPECT_THROW(search(other, {.start = 2, .eos = 0},
                      std::vector{Request{.source = {1}, .options = {.shortlist = shortlist}}}),
               UsageError);
}

// A projection to some rows of the table, which depend on the other requests, has the same bits as alone.
class Restricted : public ::testing::TestWithParam<DType> {};

TEST_P(Restricted, ATransformersBitsDoNotDependOnTheCompanions) {
  const auto model = random_transformer(small_config(), 31);
  quantize_model(GetParam(), *model);
  const auto sources = random_sentences(30, 12, 22, 8);
  std::vector<Request> requests;
  for (const auto& source : sources) requests.push_back({.source = source});
  SearchOptions options{.beam = 4, .nbest = 2, .max_new_tokens = 19, .shortlist = some_shortlist()};
  const std::vector<NBest> expected =
      search(ModelList{model}, with_options(requests, options), {.batch_tokens = 1});
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    for (const int64_t budget : {30, 5000}) {
      const std::vector<NBest> found =
          search(ModelList{model}, with_options(requests, options), {.batch_tokens = budget});
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(same_bits(found[i], expected[i])) << budget << " " << i;
    }
  }
  set_threads(before);
  // If some may use all tokens, nothing is restricted, without effect on the others.
  Engine engine(make_step_model({model}), special_ids({model}), {.batch_tokens = 60});
  std::vector<NBest> mixed(sources.size());
  SearchOptions free = options;
  free.shortlist.reset();
  for (size_t i = 0; i < sources.size(); ++i)
    engine.submit(fitting({model}, with_options(requests[i], i % 4 == 0 ? free : options)));
  while (!engine.idle()) {
    for (Decoded& one : engine.step()) mixed[one.request_id] = std::move(one.hypotheses);
  }
  int different = 0;
  for (size_t i = 0; i < mixed.size(); ++i) {
    if (i % 4 != 0) {
      EXPECT_TRUE(same_bits(mixed[i], expected[i])) << i;
    } else {
      different += mixed[i][0].ids != expected[i][0].ids;
    }
  }
  EXPECT_GT(different, 0);
  // An ensemble cannot restrict its logits; it masks forbidden tokens.
  const auto alike = search(ModelList{model, model}, with_options(requests, options));
  for (size_t i = 0; i < alike.size(); ++i) EXPECT_NEAR(alike[i][0].score, expected[i][0].score, 1e-4) << i;
}

INSTANTIATE_TEST_SUITE_P(Forms, Restricted, ::testing::Values(DType::f32, DType::bf16, DType::i8),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace qkv::search

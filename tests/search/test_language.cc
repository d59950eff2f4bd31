#include "qkv/search/language.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/kernels/loss.h"
#include "qkv/search/language_step_model.h"
#include "tests/support/scratch.h"

namespace qkv::search {
namespace {

using models::LanguageModel;
using models::LanguageModelConfig;
using qkv::testing::message_of;
using Texts = std::vector<std::vector<int32_t>>;

// Configurations like GPT-2's and LLaMA's.
std::vector<LanguageModelConfig> variants() {
  const LanguageModelConfig gpt{
      .vocabulary = 31,
      .max_positions = 40,
      .embedding = {.d_model = 32, .positions = {.kind = nn::PositionKind::learned, .max_positions = 40}},
      .decoder = {.layers = nn::alike(2, {.d_model = 32,
                                          .heads = 4,
                                          .d_ff = 30,
                                          .activation = Activation::gelu_tanh,
                                          .norm = nn::NormPlacement::pre}),
                  .final_norm = true},
      .bos_ids = {1},
      .eos_ids = {2}};
  LanguageModelConfig llama = gpt;
  llama.embedding.positions = {};
  llama.tied = false;
  llama.logit_softcap = 30;
  llama.decoder.each([](nn::LayerOptions& layer) {
    layer.heads = 4;
    layer.key_heads = 2;
    layer.d_k = layer.d_v = 16;
    layer.gated = true;
    layer.norm_kind = nn::NormKind::rms;
    layer.attention = {.bias = nn::ProjectionBiases::all(false),
                       .positions = {.kind = nn::PositionKind::rotary}};
    layer.feed_forward_bias = false;
  });
  llama.eos_ids = {2, 5};
  return {gpt, llama};
}

// Weights larger than initial ones, so that outputs vary.
std::shared_ptr<LanguageModel> random_model(const LanguageModelConfig& config, uint64_t seed) {
  auto model = std::make_shared<LanguageModel>(config);
  nn::initialise(*model, seed);
  model->visit([](const std::string& name, const nn::Parameter& parameter) {
    Variable variable = parameter.variable;
    const float factor = name.starts_with("embed") || name.starts_with("lm_head") ? 40.0f : 2.0f;
    if (parameter.shape.rank() == 2) {
      for (float& x : variable.mutable_value().values()) x *= factor;
    }
  });
  return model;
}

Texts random_prompts(int count, uint64_t longest, uint64_t seed) {
  RandomStream random(seed);
  Texts prompts(static_cast<size_t>(count));
  for (auto& prompt : prompts) {
    const uint64_t length = 1 + random.below(longest);
    while (prompt.size() < length) prompt.push_back(static_cast<int32_t>(6 + random.below(25)));
  }
  return prompts;
}

std::vector<Request> requests_of(const Texts& prompts, const SearchOptions& options) {
  std::vector<Request> requests;
  for (const auto& prompt : prompts)
    requests.push_back({.source = prompt, .options = options, .key = requests.size()});
  return requests;
}

// log P of the next token after each token of a text, in one run.
Tensor whole_run(const LanguageModel& model, const std::vector<int32_t>& text) {
  const Ids ids = text;
  nn::ForwardContext context;
  Tensor logits = model.logits()(model(Ragged::from(std::span(&ids, 1)), context)).value().clone();
  kernels::log_softmax(logits, {}, logits);
  return logits;
}

SearchOptions greedy() { return {.beam = 1, .length_penalty = 0, .max_new_tokens = 15}; }

TEST(Generate, GreedyIsTheLikeliestTokenByWholeRuns) {
  for (const LanguageModelConfig& config : variants()) {
    const auto model = random_model(config, 3);
    const Texts prompts = random_prompts(6, 9, 4);
    const auto found = hypotheses_of(generate(model, requests_of(prompts, greedy())));
    ASSERT_EQ(found.size(), prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::vector<int32_t> text = prompts[i];
      const Hypothesis& hypothesis = found[i].at(0);
      for (size_t t = 0; t + (hypothesis.complete ? 0 : 1) < hypothesis.ids.size(); ++t) {
        const Tensor log_p = whole_run(*model, text);
        const float* last = log_p.data() + (log_p.rows() - 1) * 31;
        const auto best = static_cast<int32_t>(std::max_element(last, last + 31) - last);
        ASSERT_EQ(hypothesis.ids[t], best) << "prompt " << i << " token " << t;
        EXPECT_NEAR(hypothesis.token_log_probabilities[t], last[best], 3e-5);
        text.push_back(best);
      }
    }
  }
}

bool same_bits(const std::vector<NBest>& a, const std::vector<NBest>& b) {
  return std::ranges::equal(a, b, [](const NBest& one, const NBest& other) {
    return std::ranges::equal(one, other, [](const Hypothesis& x, const Hypothesis& y) {
      return x.ids == y.ids && x.token_log_probabilities == y.token_log_probabilities;
    });
  });
}

TEST(Generate, ResultsDoNotDependOnBatchesOrThreads) {
  for (const LanguageModelConfig& config : variants()) {
    const auto model = random_model(config, 5);
    const Texts prompts = random_prompts(12, 14, 6);
    for (const bool drawn : {false, true}) {
      SearchOptions options = greedy();
      options.nbest = drawn ? 3 : 2;
      if (drawn) options.sampling = Sampling{.temperature = 1.3, .top_k = 12};
      if (!drawn) options.beam = 3;
      const int before = threads();
      set_threads(1);
      const auto expected =
          hypotheses_of(generate(model, requests_of(prompts, options), {.batch_tokens = 1}));
      for (const int count : {1, 3}) {
        set_threads(count);
        for (const int64_t budget : {20, 1000}) {
          EXPECT_TRUE(same_bits(
              hypotheses_of(generate(model, requests_of(prompts, options), {.batch_tokens = budget})),
              expected))
              << count << " threads, " << budget << " tokens";
        }
      }
      set_threads(before);
      int different = 0;
      for (size_t i = 1; i < expected.size(); ++i) different += expected[i][0].ids != expected[0][0].ids;
      EXPECT_GT(different, 5);
    }
  }
}

// Prompts with common prefixes, read in chunks between steps of others, with a prefix cache, a budget and
// cancellations: each has the same bits as alone.
TEST(Generate, ChunksKeptPrefixesAndBudgetsChangeNoBit) {
  std::vector<LanguageModelConfig> configs = variants();
  configs.push_back(configs[1]);
  configs.back().decoder.each([](nn::LayerOptions& layer) { layer.attention.window = 6; });
  for (size_t c = 0; c < configs.size(); ++c) {
    const auto model = random_model(configs[c], 5 + c);
    RandomStream random(c + 1);
    const std::vector<int32_t> common = random_prompts(1, 1, 3)[0];
    Texts prompts = random_prompts(24, 14, 6);
    for (size_t i = 0; i < prompts.size(); i += 2) {
      std::vector<int32_t> longer(10, common[0]);
      longer.insert(longer.end(), prompts[i].begin(), prompts[i].end());
      prompts[i] = longer;
    }
    for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0}) {
      std::vector<Request> requests = requests_of(prompts, greedy());
      for (Request& request : requests) {
        if (request.key % 3 == 0) request.options.beam = 3;
        if (request.key % 3 == 1) request.options.sampling = Sampling{.temperature = 1.3};
        request = fitting(*model, request);
      }
      std::vector<NBest> expected;
      for (const Request& request : requests) {
        LanguageStepModel alone(model, {.cache_dtype = dtype});
        expected.push_back(search(alone, special_ids(*model), std::span(&request, 1)).at(0));
      }
      int64_t reused = 0;
      for (const int64_t prefill : {2, 9, 1000}) {
        const auto step_model =
            std::make_shared<LanguageStepModel>(model, StepModelOptions{.cache_dtype = dtype});
        const int64_t most = step_model->cache_bytes({.source_tokens = 40, .rows = 4, .tokens = 60});
        const int64_t kept = step_model->cache_bytes({.source_tokens = 100, .rows = 0});
        Engine engine(
            step_model, special_ids(*model),
            {.batch_tokens = 0, .cache_bytes = most, .prefix_bytes = kept, .prefill_tokens = prefill});
        std::vector<size_t> of_request;
        std::vector<bool> told(requests.size());
        size_t next = 0;
        while (next < requests.size() || !engine.idle()) {
          for (uint64_t arrivals = random.below(3); arrivals > 0 && next < requests.size(); --arrivals) {
            of_request.push_back(next);
            engine.submit(requests[next++]);
            if (random.below(4) > 0) continue;
            of_request.push_back(requests.size());  // one that is cancelled
            const uint64_t stranger = engine.submit(requests[random.below(requests.size())]);
            if (random.below(2) == 0) engine.cancel(stranger);
          }
          const std::vector<Decoded> ended = engine.step();
          EXPECT_LE(engine.kept_bytes(), kept);
          EXPECT_LE(engine.kept_bytes() + engine.reserved_bytes(), most);
          for (const Decoded& one : ended) {
            ASSERT_EQ(one.error, nullptr);
            reused += one.reused_tokens;
            const size_t i = of_request[one.request_id];
            if (i == requests.size()) continue;
            told[i] = true;
            EXPECT_TRUE(same_bits({one.hypotheses}, {expected[i]}))
                << c << " " << name_of(dtype) << " prefill " << prefill << " request " << i;
          }
        }
        EXPECT_EQ(std::ranges::count(told, true), std::ssize(requests));
        EXPECT_EQ(engine.reserved_bytes(), 0);
      }
      EXPECT_GT(reused, 0) << c << " " << name_of(dtype);
    }
  }
}

TEST(Generate, AKeptPrefixIsNotReadAgain) {
  const auto model = random_model(variants()[1], 5);
  LanguageStepModel step_model(model);
  step_model.keep_prefixes(1 << 20);
  const std::vector<int32_t> first{7, 8, 9, 10, 11, 12}, other{7, 8, 9, 20, 21};
  const auto opened = step_model.open(first, {});
  EXPECT_EQ(opened->unread, 5);
  const StepModel::Chunk chunk{opened.get(), 5};
  step_model.read(std::span(&chunk, 1));
  EXPECT_EQ(opened->unread, 0);
  EXPECT_EQ(step_model.open(other, {})->unread, 1) << "7 8 9 are known, 21 is for the first step";
  EXPECT_EQ(step_model.open(other, {})->reused, 3);
  EXPECT_EQ(step_model.open(first, {})->unread, 0);
  LanguageStepModel forgetful(model);
  const auto again = forgetful.open(first, {});
  const StepModel::Chunk same{again.get(), 5};
  forgetful.read(std::span(&same, 1));
  EXPECT_EQ(forgetful.open(first, {})->unread, 5);
}

// A stack whose layers have these windows; 0: all positions.
std::shared_ptr<LanguageModel> windowed_model(const std::vector<int64_t>& windows, int64_t positions) {
  LanguageModelConfig config = variants()[1];
  config.max_positions = positions;
  const nn::LayerOptions layer = config.decoder.first();
  config.decoder.layers.clear();
  for (const int64_t window : windows) {
    config.decoder.layers.push_back(layer);
    config.decoder.layers.back().attention.window = window;
  }
  return random_model(config, 5);
}

// A conversation: each prompt begins with the whole one before it.
TEST(Generate, APromptThatGoesOnReadsOnlyWhatIsNew) {
  const std::vector<std::vector<int64_t>> stacks{{0, 0}, {6, 6}, {6, 0, 80}};
  for (const std::vector<int64_t>& windows : stacks) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0}) {
      const auto model = windowed_model(windows, 400);
      const auto step_model =
          std::make_shared<LanguageStepModel>(model, StepModelOptions{.cache_dtype = dtype});
      Engine engine(step_model, special_ids(*model), {.prefix_bytes = 1 << 20, .prefill_tokens = 70});
      std::vector<int32_t> prompt;
      for (uint64_t turn = 0; turn < 5; ++turn) {
        const auto known = std::ssize(prompt);
        const Texts more = random_prompts(1, 61, turn);
        prompt.insert(prompt.end(), more[0].begin(), more[0].end());
        const Request request = fitting(*model, requests_of({prompt}, greedy())[0]);
        const std::vector<Decoded> found = decode_all(engine, std::span(&request, 1));
        EXPECT_EQ(found[0].reused_tokens, std::max<int64_t>(0, known - 1)) << turn;
        LanguageStepModel alone(model, {.cache_dtype = dtype});
        const auto expected = search(alone, special_ids(*model), std::span(&request, 1));
        EXPECT_TRUE(same_bits({found[0].hypotheses}, expected)) << turn << " " << name_of(dtype);
      }
    }
  }
}

TEST(Generate, WindowedLayersReadLongPromptsInBoundedMemory) {
  constexpr int64_t kChunk = 64, kTokens = 2048;
  const auto peak = [](const std::vector<int64_t>& windows) {
    const auto model = windowed_model(windows, kTokens);
    const nn::CacheUse use{.prompt = kTokens, .chunk = kChunk};
    const int64_t bound = nn::cache_bytes(model->config().decoder, use, 0, DType::f32);
    nn::DecoderState state = model->start(Ragged::from(std::vector<Ids>(1)));
    const std::vector<int32_t> ids(kChunk, 7);
    int64_t most = 0;
    for (int64_t read = 0; read < kTokens; read += kChunk) {
      model->read(Ragged::from(std::vector<Ids>{ids}), state);
      most = std::max(most, state.bytes());
    }
    EXPECT_LE(most, bound);
    return std::pair(most, bound);
  };
  const auto [none, of_none] = peak({0});
  EXPECT_EQ(none, of_none) << "each position is kept";
  const auto [windowed, of_windowed] = peak({16, 16, 16});
  EXPECT_LT(of_windowed, none);
  const auto [mixed, of_mixed] = peak({16, 0, 16});
  EXPECT_GT(mixed, none);
  EXPECT_LT(of_mixed, none + of_windowed);
}

TEST(Generate, EndsWhereTheModelCanReadNoFurther) {
  LanguageModelConfig config = variants()[0];
  const auto model = random_model(config, 7);
  SearchOptions options = greedy();
  options.max_new_tokens = 999;
  options.min_new_tokens = 999;  // never ends early
  const Texts prompts = {random_prompts(1, 1, 1)[0], std::vector<int32_t>(40, 9)};
  const auto found = hypotheses_of(generate(model, requests_of(prompts, options)));
  // All 40 positions are read; the token after them is the last, followed by the forced end token.
  EXPECT_EQ(prompts[0].size() + found[0].at(0).ids.size(), 42u);
  EXPECT_EQ(found[1].at(0).ids.size(), 2u);
  EXPECT_FALSE(found[0][0].complete);
}

TEST(Generate, AnyOfTheEndsEndsAText) {
  const auto model = random_model(variants()[1], 8);
  int ends_of[2] = {0, 0};
  SearchOptions options{.beam = 1, .nbest = 40, .sampling = Sampling{.temperature = 4}, .max_new_tokens = 37};
  const std::vector<NBest> found = hypotheses_of(generate(model, requests_of({{7, 8}}, options)));
  for (const Hypothesis& one : found.at(0)) {
    if (!one.complete) continue;
    const int32_t last = one.ids.back();
    EXPECT_TRUE(last == 2 || last == 5) << last;
    ++ends_of[last == 5];
    EXPECT_EQ(
        std::count(one.ids.begin(), one.ids.end() - 1, 2) + std::count(one.ids.begin(), one.ids.end() - 1, 5),
        0);
  }
  EXPECT_GT(ends_of[0], 0);
  EXPECT_GT(ends_of[1], 0);
}

TEST(Generate, ABadPromptLeavesTheOthersUnharmed) {
  const auto model = random_model(variants()[0], 9);
  const Texts prompts = {{7, 8}, {}, std::vector<int32_t>(41, 7), {31}, {9}};
  const std::vector<Decoded> found = generate(model, requests_of(prompts, greedy()));
  EXPECT_FALSE(found[0].error);
  EXPECT_FALSE(found[4].error);
  EXPECT_FALSE(found[4].hypotheses.empty());
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(found[1].error && found[2].error && found[3].error);
  EXPECT_TRUE(
      has(message_of<UsageError>([&] { std::rethrow_exception(found[1].error); }), "at least one token"));
  EXPECT_TRUE(has(message_of<UsageError>([&] { std::rethrow_exception(found[2].error); }), "at most the 40"));
  EXPECT_TRUE(has(message_of<DataError>([&] { std::rethrow_exception(found[3].error); }), "0 to 30"));
}

TEST(Generate, GoesOnToTheLimitWithoutAnEndToken) {
  LanguageModelConfig config = variants()[0];
  config.eos_ids = {};
  const auto model = random_model(config, 9);
  for (const int beam : {1, 2}) {
    SearchOptions options = greedy();
    options.beam = beam;
    options.max_new_tokens = 6;
    std::vector<Request> requests = requests_of({{7}}, options);
    std::vector<int32_t> told;
    requests[0].on_token = [&](const NewToken& token) {
      told.push_back(token.id);
      return true;
    };
    const Hypothesis found = generate(model, requests).at(0).hypotheses.at(0);
    EXPECT_FALSE(found.complete);
    ASSERT_EQ(found.ids.size(), 7u);
    EXPECT_EQ(found.ids.back(), SpecialIds::kNone);
    EXPECT_TRUE(std::ranges::equal(told, std::span(found.ids).first(6)));
    EXPECT_TRUE(std::ranges::all_of(told, [](int32_t id) { return id >= 0; }));
  }
}

TEST(LanguageScore, IsTheWholeRunsAndDoesNotDependOnTheBatch) {
  for (const LanguageModelConfig& config : variants()) {
    const auto model = random_model(config, 11);
    Texts texts = random_prompts(9, 20, 12);
    texts[3] = {};
    texts[5] = {8};
    const std::vector<Ids> ids(texts.begin(), texts.end());
    const auto scores = score(*model, ids);
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(scores[i].size(), texts[i].empty() ? 0 : texts[i].size() - 1);
      if (scores[i].empty()) continue;
      const Tensor log_p = whole_run(*model, texts[i]);
      for (size_t t = 0; t < scores[i].size(); ++t) {
        EXPECT_EQ(scores[i][t], log_p.data()[static_cast<int64_t>(t) * 31 + texts[i][t + 1]]);
      }
    }
    EXPECT_EQ(score(*model, ids, 1), scores);
    EXPECT_EQ(score(*model, ids, 37), scores);
  }
}

}  // namespace
}  // namespace qkv::search

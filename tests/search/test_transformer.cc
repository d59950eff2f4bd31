#include "qkv/search/transformer.h"

#include "qkv/search/transformer_step_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/search/capture.h"
#include "qkv/search/score.h"
#include "tests/search/random_step_model.h"
#include "tests/search/random_transformer.h"

namespace qkv::search {
namespace {

using models::TransformerConfig;
using testing::random_sentences;
using testing::random_transformer;
using testing::small_config;
using Sentences = std::vector<std::vector<int32_t>>;

std::vector<TransformerConfig> variants() {
  TransformerConfig pre = small_config();
  pre.norm = nn::NormPlacement::pre;
  pre.positions = nn::PositionKind::learned;
  pre.tying = models::Tying::none;
  pre.activation = Activation::gelu_exact;
  TransformerConfig free = small_config();
  free.d_k = 5;
  free.d_v = 7;
  free.heads = 3;
  free.positions = nn::PositionKind::sinusoidal_interleaved;
  free.tying = models::Tying::two_way;
  TransformerConfig t5 = small_config();
  t5.d_k = t5.d_v = 5;
  t5.gated = true;
  t5.activation = Activation::gelu_tanh;
  t5.norm = nn::NormPlacement::pre;
  t5.norm_kind = nn::NormKind::rms;
  t5.positions = nn::PositionKind::relative;
  t5.position_buckets = 8;
  t5.position_max_distance = 20;
  t5.bias = t5.output_bias = false;
  t5.scale_embedding = false;
  t5.scale_output = true;
  TransformerConfig alibi = small_config();
  alibi.heads = 4;
  alibi.positions = nn::PositionKind::alibi;
  alibi.tying = models::Tying::inputs;
  return {small_config(), pre, free, t5, alibi};
}

Ragged all_of(const Sentences& sentences) {
  return Ragged::from(std::vector<Ids>(sentences.begin(), sentences.end()));
}

void admit(StepModel& step_model, const Sentences& sentences) {
  std::vector<std::unique_ptr<StepModel::Source>> sources;
  for (const auto& sentence : sentences) sources.push_back(step_model.open(sentence, {}));
  step_model.admit(sources);
}

// Logits of all positions in one run of the decoder.
Tensor full_logits(const models::Transformer& model, const Sentences& sources, const Sentences& inputs) {
  nn::ForwardContext context;
  const nn::Memory memory = model.encode(all_of(sources), context);
  return model.logits()(model.decode(all_of(inputs), memory, context)).value();
}

// The change of logits if each weight moves to an adjacent float: the best possible accuracy.
float rounding_error(const TransformerConfig& config, uint64_t seed, const Tensor& logits,
                     const Sentences& sources, const Sentences& inputs) {
  const auto model = random_transformer(config, seed);
  RandomStream random(9);
  model->visit([&](const std::string&, const nn::Parameter& parameter) {
    Variable variable = parameter.variable;
    for (float& x : variable.mutable_value().values()) x = std::nextafter(x, random.below(2) ? 1e9f : -1e9f);
  });
  const Tensor moved = full_logits(*model, sources, inputs);
  float error = 0;
  for (int64_t i = 0; i < logits.numel(); ++i)
    error = std::max(error, std::abs(moved.data()[i] - logits.data()[i]));
  return error;
}

TEST(TransformerStepModel, StepsGiveWhatOneRunGives) {
  for (const TransformerConfig& config : variants()) {
    const auto model = random_transformer(config, 7);
    const Sentences sources = random_sentences(4, 9, 22, 3);
    constexpr size_t kLength = 37;  // the cache has to grow more than once
    Sentences inputs = random_sentences(4, 1, 22, 1);
    RandomStream random(5);
    for (auto& input : inputs) {
      input = {22};
      while (input.size() < kLength) input.push_back(static_cast<int32_t>(random.below(22)));
    }
    const Tensor expected = full_logits(*model, sources, inputs);
    // A step's attention sums in another order than that of a whole sentence, which propagates through the
    // layers. Logits are only determined up to the rounding of the weights.
    float bound = rounding_error(config, 7, expected, sources, inputs) / 4;
    ASSERT_LT(bound, 1e-4f);
    for (const float logit : expected.values()) bound = std::max(bound, 4e-6f * std::abs(logit));
    TransformerStepModel step_model(model);
    admit(step_model, sources);
    for (size_t place = 0; place < kLength; ++place) {
      std::vector<int32_t> ids;
      for (const auto& input : inputs) ids.push_back(input[place]);
      const Tensor logits = step_model.step(Tensor::from(ids, {4}));
      ASSERT_EQ(logits.shape(), (Shape{4, 23}));
      for (size_t s = 0; s < 4; ++s) {
        for (int64_t c = 0; c < 23; ++c) {
          ASSERT_NEAR(logits.data()[static_cast<int64_t>(s) * 23 + c],
                      expected.data()[static_cast<int64_t>(s * kLength + place) * 23 + c], bound)
              << "sentence " << s << " place " << place;
        }
      }
    }
  }
}

TEST(TransformerStepModel, ReorderedRowsGoOnFromTheirParents) {
  const auto model = random_transformer(small_config(), 11);
  Sentences living = random_sentences(3, 9, 22, 4);
  TransformerStepModel step_model(model);
  admit(step_model, living);
  Sentences rows = {{}, {}, {}};
  Sentences row_sources = living;
  const auto step = [&](std::vector<int32_t> ids) {
    for (size_t r = 0; r < rows.size(); ++r) rows[r].push_back(ids[r]);
    const Tensor logits = step_model.step(Tensor::from(ids, {static_cast<int64_t>(ids.size())}));
    const Tensor expected = full_logits(*model, row_sources, rows);
    const auto length = static_cast<int64_t>(rows[0].size());
    for (int64_t r = 0; r < static_cast<int64_t>(rows.size()); ++r) {
      for (int64_t c = 0; c < 23; ++c) {
        ASSERT_NEAR(logits.data()[r * 23 + c], expected.data()[((r + 1) * length - 1) * 23 + c], 1e-5);
      }
    }
  };
  const auto reorder = [&](std::vector<int32_t> parents, std::vector<int32_t> hypothesis_offsets) {
    step_model.reorder(parents, Offsets(hypothesis_offsets));
    Sentences new_rows;
    row_sources.clear();
    for (const int32_t parent : parents) new_rows.push_back(rows[static_cast<size_t>(parent)]);
    Sentences left;
    for (size_t s = 0; s < living.size(); ++s) {
      for (int32_t r = hypothesis_offsets[s]; r < hypothesis_offsets[s + 1]; ++r)
        row_sources.push_back(living[s]);
      if (hypothesis_offsets[s] < hypothesis_offsets[s + 1]) left.push_back(living[s]);
    }
    living = left;
    rows = new_rows;
  };
  step({22, 22, 22});
  reorder({0, 0, 1, 2, 2, 2}, {0, 2, 3, 6});
  step({4, 5, 6, 7, 8, 9});
  reorder({1, 0, 1, 5, 3}, {0, 3, 3, 5});  // the second sentence is done
  step({1, 2, 3, 20, 21});
  reorder({4, 3}, {0, 0, 2});  // the first is done
  step({17, 4});
}

TEST(TransformerSearch, GreedyIsTheLikeliestTokenByFullRuns) {
  for (const TransformerConfig& config : variants()) {
    const auto model = random_transformer(config, 21);
    const Sentences sources = random_sentences(6, 8, 22, 6);
    const std::vector<NBest> found = search(*model, sources, {.beam = 1, .max_new_tokens = 14});
    for (size_t s = 0; s < sources.size(); ++s) {
      std::vector<int32_t> input = {22};
      while (input.size() < 15 && (input.size() == 1 || input.back() != 0)) {
        const Tensor logits = full_logits(*model, {sources[s]}, {input});
        const float* last = logits.data() + (logits.rows() - 1) * 23;
        input.push_back(static_cast<int32_t>(std::max_element(last, last + 22) - last));  // 22 is padding
      }
      if (input.back() != 0) input.push_back(0);
      EXPECT_EQ(found[s].at(0).ids, std::vector<int32_t>(input.begin() + 1, input.end()));
    }
  }
}

bool same_bits(const std::vector<NBest>& a, const std::vector<NBest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), testing::same_bits);
}

TEST(TransformerSearch, ResultsDoNotDependOnBatchesOrderOrThreads) {
  const auto model = random_transformer(small_config(), 31);
  const Sentences sources = random_sentences(25, 20, 22, 8);
  const SearchOptions options{.beam = 4, .nbest = 3, .max_new_tokens = 24};
  const int before = threads();
  set_threads(1);
  const std::vector<NBest> expected = search(*model, sources, options, {.batch_tokens = 1});  // one at a time
  ASSERT_EQ(expected.size(), sources.size());
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    for (const int64_t budget : {17, 60, 100000}) {
      EXPECT_TRUE(same_bits(search(*model, sources, options, {.batch_tokens = budget}), expected))
          << count << " " << budget;
    }
  }
  set_threads(before);
  Sentences reversed(sources.rbegin(), sources.rend());
  std::vector<NBest> found = search(*model, reversed, options, {.batch_tokens = 60});
  std::reverse(found.begin(), found.end());
  EXPECT_TRUE(same_bits(found, expected));

  // Requests that arrive while others run, in another order and among unrelated ones.
  for (const uint64_t seed : {1, 2, 3}) {
    Engine engine(make_step_model({model}), special_ids({model}), {.batch_tokens = 70});
    RandomStream random(seed);
    std::vector<size_t> waiting(sources.size()), of_ticket;
    std::iota(waiting.begin(), waiting.end(), size_t{0});
    found.assign(sources.size(), {});
    while (!waiting.empty() || !engine.idle()) {
      for (uint64_t arrivals = random.below(4); arrivals > 0 && !waiting.empty(); --arrivals) {
        const size_t place = random.below(waiting.size());
        of_ticket.push_back(waiting[place]);
        engine.submit(fitting({model}, {.source = sources[waiting[place]], .options = options}));
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(place));
        if (random.below(2) == 0) {
          of_ticket.push_back(sources.size());
          engine.submit(
              {.source = random_sentences(1, 30, 22, random.below(1000))[0], .options = {.beam = 2}});
        }
      }
      for (Decoded& one : engine.step()) {
        if (of_ticket[one.request_id] < sources.size())
          found[of_ticket[one.request_id]] = std::move(one.hypotheses);
      }
    }
    EXPECT_TRUE(same_bits(found, expected)) << seed;
  }
  int different = 0;
  for (size_t i = 1; i < expected.size(); ++i) different += expected[i].at(0).ids != expected[0].at(0).ids;
  EXPECT_GT(different, 5);
}

TEST(TransformerSearch, NeverWritesPaddingNorMoreThanThereArePositionsFor) {
  TransformerConfig config = small_config();
  config.max_positions = 12;
  const auto model = random_transformer(config, 5);
  // Padding is the most likely token, </s> the least likely.
  model->visit([](const std::string& name, const nn::Parameter& parameter) {
    if (name != "final_logits_bias") return;
    Variable bias = parameter.variable;
    bias.mutable_value().data()[22] = 50;
    bias.mutable_value().data()[0] = -50;
  });
  const Sentences sources = random_sentences(3, 8, 22, 2);
  for (const NBest& nbest : search(*model, sources, {.nbest = 4, .max_new_tokens = 99})) {
    ASSERT_EQ(nbest.size(), 4u);
    for (const Hypothesis& hypothesis : nbest) {
      EXPECT_EQ(hypothesis.ids.size(), 13u);  // 12 inputs: the start token and 11 more; 12 outputs and </s>
      EXPECT_EQ(std::count(hypothesis.ids.begin(), hypothesis.ids.end(), 22), 0);
    }
  }
}

TEST(TransformerSearch, BadSourcesAreErrors) {
  const auto model = random_transformer(small_config(), 1);
  EXPECT_THROW(search(*model, Sentences{{3, 0}, {}}, {}), UsageError);
  EXPECT_THROW(search(*model, Sentences{{3, 23, 0}}, {}), DataError);
  EXPECT_THROW(search(*model, Sentences{{3, 0}}, {}, {.batch_tokens = -1}), UsageError);
  EXPECT_TRUE(search(*model, Sentences{}, {}).empty());
}

TEST(Score, IsWhatSearchSaysAndDoesNotDependOnTheBatch) {
  for (const TransformerConfig& config : variants()) {
    const auto model = random_transformer(config, 41);
    const Sentences sources = random_sentences(12, 15, 22, 9);
    Sentences targets;
    const std::vector<NBest> found = search(*model, sources, {.max_new_tokens = 39});
    for (const NBest& nbest : found) targets.push_back(nbest.at(0).ids);
    const auto scores = score(*model, sources, targets);
    for (size_t s = 0; s < sources.size(); ++s) {
      const Hypothesis& hypothesis = found[s][0];
      ASSERT_EQ(scores[s].size(), hypothesis.ids.size());
      const size_t said = hypothesis.ids.size() - (hypothesis.complete ? 0 : 1);  // the rest was forced
      for (size_t t = 0; t < said; ++t) {
        EXPECT_NEAR(scores[s][t], hypothesis.token_log_probabilities[t], 2e-5);
      }
    }
    EXPECT_EQ(score(*model, sources, targets, 1), scores);
    EXPECT_EQ(score(*model, sources, targets, 70), scores);
  }
}

TEST(Score, EmptyAndBadPairs) {
  const auto model = random_transformer(small_config(), 1);
  const auto scores = score(*model, Sentences{{1, 0}, {2, 0}}, Sentences{{}, {3, 0}});
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_TRUE(scores[0].empty());
  EXPECT_EQ(scores[1].size(), 2u);
  EXPECT_THROW(score(*model, Sentences{{1, 0}}, Sentences{}), UsageError);
  EXPECT_THROW(score(*model, Sentences{{}}, Sentences{{1, 0}}), UsageError);
  EXPECT_THROW(score(*model, Sentences{{1, 0}}, Sentences{{1, 23}}), DataError);
}

TEST(Capture, HoldsEveryAttentionOfThePair) {
  for (const TransformerConfig& config : variants()) {
    const auto model = random_transformer(config, 51);
    const std::vector<int32_t> source = {4, 9, 2, 11, 0}, target = {7, 7, 1, 0};
    const Capture captured = capture(*model, source, target);
    EXPECT_EQ(captured.target_inputs, (std::vector<int32_t>{22, 7, 7, 1}));
    EXPECT_EQ(captured.log_probabilities, score(*model, Sentences{source}, Sentences{target}).at(0));
    const std::vector<std::pair<std::string, Shape>> expected = {
        {"encoder.layers.0.self_attn", {config.heads, 5, 5}},
        {"encoder.layers.1.self_attn", {config.heads, 5, 5}},
        {"decoder.layers.0.self_attn", {config.heads, 4, 4}},
        {"decoder.layers.0.encoder_attn", {config.heads, 4, 5}},
        {"decoder.layers.1.self_attn", {config.heads, 4, 4}},
        {"decoder.layers.1.encoder_attn", {config.heads, 4, 5}}};
    ASSERT_EQ(captured.attentions.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const CapturedAttention& one = captured.attentions[i];
      EXPECT_EQ(one.name, expected[i].first);
      ASSERT_EQ(one.weights.shape(), expected[i].second);
      const int64_t keys = one.weights.dim(2);
      for (int64_t row = 0; row < one.weights.rows(); ++row) {
        const float* weights = one.weights.data() + row * keys;
        EXPECT_NEAR(std::accumulate(weights, weights + keys, 0.0), 1, 1e-5) << one.name;
        for (int64_t key = row % 4 + 1; keys == 4 && key < keys; ++key) {
          EXPECT_EQ(weights[key], 0) << one.name << ": a position attends to a later one";
        }
      }
    }
  }
  const auto model = random_transformer(small_config(), 51);
  EXPECT_THROW(capture(*model, {}, std::vector<int32_t>{1, 0}), UsageError);
  EXPECT_THROW(capture(*model, std::vector<int32_t>{1, 0}, {}), UsageError);
}

TEST(TransformerStepModel, TellsWhatItAttendsTo) {
  const auto model = random_transformer(small_config(), 51), other = random_transformer(small_config(), 52);
  const Sentences sources = {{4, 9, 2, 11, 0}, {8, 3, 0}};
  const std::vector<int32_t> target = {7, 7, 1, 0};
  TransformerStepModel step_model(model);
  EXPECT_TRUE(step_model.has_cross_attention());
  step_model.capture_cross_attention(true);
  const auto both = make_step_model({model, other});
  EXPECT_TRUE(both->has_cross_attention());
  both->capture_cross_attention(true);
  admit(step_model, sources);
  admit(*both, sources);
  const auto mean_of_heads = [&](const models::Transformer& of, const std::vector<int32_t>& source, size_t t,
                                 size_t key) {
    const Capture captured = capture(of, source, target);
    const Tensor& weights =
        std::ranges::find(captured.attentions, "decoder.layers.0.encoder_attn", &CapturedAttention::name)
            ->weights;
    double sum = 0;
    for (int64_t head = 0; head < weights.dim(0); ++head) {
      sum += static_cast<double>(
          weights.data()[(head * weights.dim(1) + static_cast<int64_t>(t)) * weights.dim(2) +
                         static_cast<int64_t>(key)]);
    }
    return sum / static_cast<double>(weights.dim(0));
  };
  std::vector<int32_t> input = {22, 7, 7, 1};
  for (size_t t = 0; t < 4; ++t) {
    const Tensor ids = Tensor::from(std::vector<int32_t>{input[t], input[t]}, {2});
    step_model.step(ids);
    both->step(ids);
    ASSERT_EQ(step_model.source_weights().size(), 2u);
    for (size_t s = 0; s < 2; ++s) {
      ASSERT_EQ(step_model.source_weights()[s].size(), sources[s].size());
      for (size_t key = 0; key < sources[s].size(); ++key) {
        const double expected = mean_of_heads(*model, sources[s], t, key);
        EXPECT_NEAR(step_model.source_weights()[s][key], expected, 1e-5) << t << " " << s << " " << key;
        EXPECT_NEAR(both->source_weights()[s][key],
                    (expected + mean_of_heads(*other, sources[s], t, key)) / 2, 1e-5);
      }
    }
  }
  step_model.capture_cross_attention(false);
  step_model.step(Tensor::from(std::vector<int32_t>{1, 2}, {2}));
  EXPECT_TRUE(step_model.source_weights().empty());
}

}  // namespace
}  // namespace qkv::search

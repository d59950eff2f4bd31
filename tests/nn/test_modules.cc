#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "qkv/base/scope.h"
#include "qkv/nn/decoder.h"
#include "qkv/nn/embedding.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/rotary.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

nn::StackOptions small_stack(nn::NormPlacement norm) {
  return {.layers = 2,
          .layer = {.d_model = 24,
                    .heads = 3,
                    .d_k = 5,
                    .d_v = 11,
                    .d_ff = 40,
                    .activation = Activation::silu,
                    .norm = norm},
          .final_norm = norm == nn::NormPlacement::pre};
}

class Decoding : public ::testing::TestWithParam<nn::NormPlacement> {};

// Step by step with a cache, which grows several times, equals all positions at once.
TEST_P(Decoding, StepsMatchTheFullForwardPass) {
  const nn::Decoder decoder(small_stack(GetParam()));
  nn::initialise(decoder, 5);
  const int64_t length = 37;
  const Offsets memory_offsets({0, 4, 13}), offsets = Offsets::uniform(2, length);
  const nn::Memory memory{random_tensor({13, 24}, 1), memory_offsets};
  const Tensor x = random_tensor({2 * length, 24}, 2);
  nn::ForwardContext context;
  const Tensor whole = decoder(x, offsets, memory, context).value();
  nn::DecoderState state = decoder.start(memory);
  for (int64_t i = 0; i < length; ++i) {
    Tensor rows = Tensor::empty({2, 24});
    for (int64_t s = 0; s < 2; ++s) rows.slice_rows(s, 1).copy_from(x.slice_rows(s * length + i, 1));
    const Tensor y = decoder.step(rows, state);
    for (int64_t s = 0; s < 2; ++s)
      expect_close(y.slice_rows(s, 1), whole.slice_rows(s * length + i, 1), "position", 2e-6);
  }
  EXPECT_EQ(state.layers[0].self.length(1), length);
}

// Sentences are added and removed while others are decoded, and each has the same bits as alone.
TEST_P(Decoding, SentencesJoinAndLeaveTheBatch) {
  const nn::Decoder decoder(small_stack(GetParam()));
  nn::initialise(decoder, 6);
  const Tensor encoded = random_tensor({15, 24}, 1);
  const Offsets offsets({0, 3, 9, 15});
  const auto memory_of = [&](int64_t first, int64_t count) {
    std::vector<int32_t> lengths;
    for (int64_t s = first; s < first + count; ++s)
      lengths.push_back(static_cast<int32_t>(offsets.length(s)));
    const Offsets own = Offsets::of_lengths(lengths);
    return nn::Memory{encoded.slice_rows(offsets.begin(first), own.tokens()), own};
  };
  // For each row: its sentence, and its inputs since the first step.
  struct Row {
    int64_t sentence = 0;
    std::vector<Tensor> inputs = {};
  };
  std::vector<Row> rows{{0}, {1}};
  nn::DecoderState state = decoder.start(memory_of(0, 2));
  uint64_t seed = 2;
  const auto step = [&] {
    const auto count = static_cast<int64_t>(rows.size());
    const Tensor x = random_tensor({count, 24}, ++seed), y = decoder.step(x, state);
    for (int64_t r = 0; r < count; ++r) {
      Row& row = rows[static_cast<size_t>(r)];
      row.inputs.push_back(x.slice_rows(r, 1));
      EXPECT_EQ(state.layers[1].self.length(r), std::ssize(row.inputs));
      nn::DecoderState alone = decoder.start(memory_of(row.sentence, 1));
      Tensor expected;
      for (const Tensor& input : row.inputs) expected = decoder.step(input, alone);
      for (int64_t c = 0; c < 24; ++c)
        ASSERT_EQ(y.data()[r * 24 + c], expected.data()[c]) << "bits, row " << r;
    }
  };
  const auto reorder = [&](const std::vector<int32_t>& parents, std::vector<int32_t> hypothesis_offsets) {
    state.reorder(parents, Offsets(std::move(hypothesis_offsets)));
    std::vector<Row> next;
    for (const int32_t parent : parents) next.push_back(rows[static_cast<size_t>(parent)]);
    rows = next;
  };
  step();
  reorder({0, 1, 1}, {0, 1, 3});  // sentence 1 continues as two hypotheses
  step();
  state.join(decoder.start(memory_of(2, 1)));
  rows.push_back({2});
  step();
  reorder({2, 1, 3}, {0, 0, 2, 3});  // sentence 0 is done
  step();
  for (int i = 0; i < 20; ++i) step();  // the cache grows
  reorder({2, 2, 2}, {0, 0, 3});        // sentence 1 is done too
  step();
  state.join(decoder.start(memory_of(0, 1)));
  rows.push_back({0});
  step();
  reorder({}, {0, 0, 0});
  EXPECT_EQ(state.hypothesis_offsets.sequences(), 0);
  EXPECT_THROW(state.reorder(std::vector<int32_t>{0}, Offsets({0, 1})), ShapeError);
}

INSTANTIATE_TEST_SUITE_P(Norms, Decoding, ::testing::Values(nn::NormPlacement::post, nn::NormPlacement::pre),
                         [](const auto& norm) {
                           return std::string(norm.param == nn::NormPlacement::post ? "post" : "pre");
                         });

// LLaMA's blocks: no memory, rotary positions, grouped heads, a gate, RMS norms.
nn::StackOptions language_stack() {
  return {.layers = 2,
          .layer = {.d_model = 24,
                    .heads = 4,
                    .key_heads = 2,
                    .d_k = 6,
                    .d_v = 6,
                    .d_ff = 40,
                    .activation = Activation::silu,
                    .gated = true,
                    .norm = nn::NormPlacement::pre,
                    .norm_kind = nn::NormKind::rms,
                    .attention_bias = false,
                    .feed_forward_bias = false,
                    .positions = {.kind = nn::PositionKind::rotary},
                    .attention_softcap = 0.8f,
                    .reads_memory = false},
          .final_norm = true};
}

TEST(LanguageDecoder, IsAnEncoderIfNotCausal) {
  const nn::Decoder decoder(language_stack());
  const nn::Encoder encoder(language_stack());
  nn::initialise(decoder, 15);
  nn::initialise(encoder, 15);
  const Offsets offsets({0, 5, 12});
  const Tensor x = random_tensor({12, 24}, 3);
  nn::ForwardContext context;
  const Tensor causal = decoder(x, offsets, {}, context).value();
  const Tensor found = decoder(x, offsets, {}, context, {.self = {}}).value();
  const Tensor expected = encoder(x, offsets, context).value();
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.bytes()), 0);
  EXPECT_NE(std::memcmp(found.data(), causal.data(), found.bytes()), 0);
}

// A key that is masked for all queries does not affect other rows.
TEST(LanguageDecoder, TakesAMask) {
  const nn::Decoder decoder(language_stack());
  nn::initialise(decoder, 15);
  std::vector<uint8_t> kept(7, 1);
  kept[2] = 0;
  const nn::DecoderMasks masks{.self = {.causal = true, .keep = Tensor::from(kept, {1, 1, 1, 7})}};
  const Tensor x = random_tensor({7, 24}, 3), other = x.clone();
  Tensor(other).at(2, 5) += 1;
  nn::ForwardContext context;
  const Tensor a = decoder(x, Offsets({0, 7}), {}, context, masks).value();
  const Tensor b = decoder(other, Offsets({0, 7}), {}, context, masks).value();
  for (int64_t i = 0; i < 7; ++i) {
    const bool same =
        std::memcmp(a.slice_rows(i, 1).data(), b.slice_rows(i, 1).data(), 24 * sizeof(float)) == 0;
    EXPECT_EQ(same, i != 2) << "row " << i;
  }
}

TEST(Encoder, ErrorsNameTheModule) {
  const nn::Encoder encoder(language_stack());
  nn::initialise(encoder, 1);
  nn::ForwardContext context;
  const NameScope scope("encoder");
  try {
    encoder(random_tensor({3, 5}, 1), Offsets({0, 3}), context);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("encoder.layers.0")) << error.what();
  }
}

// Layers above frozen ones get the same gradients as if those were trained too, with and without
// recomputation.
TEST(Encoder, FrozenLayersGetNoGradient) {
  const Offsets offsets({0, 5, 12});
  const Tensor x = random_tensor({12, 24}, 3), coefficients = random_tensor({12, 24}, 4);
  const auto gradients = [&](bool freeze, bool recompute) {
    const nn::Encoder encoder(language_stack());
    nn::initialise(encoder, 7);
    encoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
      parameter.variable.set_requires_grad(!freeze || !name.starts_with("layers.0."));
    });
    nn::ForwardContext context{.training = true, .recompute = recompute};
    Tape tape;
    tape.backward(weighted_sum(encoder(x, offsets, context), coefficients));
    std::map<std::string, Tensor> found;
    encoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
      if (parameter.variable.has_grad()) found[name] = parameter.variable.grad();
    });
    return found;
  };
  const auto all = gradients(false, false);
  for (const bool recompute : {false, true}) {
    const auto some = gradients(true, recompute);
    EXPECT_LT(some.size(), all.size());
    for (const auto& [name, gradient] : all) {
      EXPECT_EQ(some.contains(name), !name.starts_with("layers.0.")) << name;
      if (!some.contains(name)) continue;
      EXPECT_EQ(std::memcmp(some.at(name).data(), gradient.data(), gradient.bytes()), 0) << name;
    }
  }
}

TEST(LanguageDecoder, HasTheDocumentedParameters) {
  const nn::Decoder decoder(language_stack());
  std::vector<std::string> names;
  decoder.visit([&](const std::string& name, const nn::Parameter&) { names.push_back(name); });
  const std::vector<std::string> of_a_layer{"self_attn.q_proj.weight",
                                            "self_attn.k_proj.weight",
                                            "self_attn.v_proj.weight",
                                            "self_attn.out_proj.weight",
                                            "self_attn_layer_norm.weight",
                                            "fc1.weight",
                                            "fc2.weight",
                                            "gate.weight",
                                            "final_layer_norm.weight"};
  std::vector<std::string> expected;
  for (const char* layer : {"layers.0.", "layers.1."}) {
    for (const std::string& name : of_a_layer) expected.push_back(layer + name);
  }
  expected.emplace_back("layer_norm.weight");
  EXPECT_EQ(names, expected);
}

// Sequences of different lengths, read at once and continued step by step, each at its own position.
TEST(LanguageDecoder, PrefillAndStepsMatchTheFullForwardPass) {
  const nn::Decoder decoder(language_stack());
  nn::initialise(decoder, 15);
  constexpr int64_t kMore = 19;
  const Offsets whole_offsets({0, 24, 48, 69}), first_offsets({0, 5, 10, 12});
  const Tensor x = random_tensor({69, 24}, 3);
  nn::ForwardContext context;
  const Tensor whole = decoder(x, whole_offsets, {}, context).value();
  std::vector<float> beginnings;
  for (int64_t s = 0; s < 3; ++s) {
    const auto rows = x.slice_rows(whole_offsets.begin(s), first_offsets.length(s)).values();
    beginnings.insert(beginnings.end(), rows.begin(), rows.end());
  }
  nn::DecoderState state = decoder.start({.offsets = first_offsets});
  const Tensor read = decoder.read(Tensor::from(beginnings, {12, 24}), first_offsets, state);
  for (int64_t s = 0; s < 3; ++s) {
    const int64_t length = first_offsets.length(s);
    expect_close(read.slice_rows(first_offsets.begin(s), length),
                 whole.slice_rows(whole_offsets.begin(s), length), "read", 2e-6);
  }
  for (int64_t i = 0; i < kMore; ++i) {
    Tensor rows = Tensor::empty({3, 24});
    for (int64_t s = 0; s < 3; ++s) {
      const int64_t at = whole_offsets.begin(s) + first_offsets.length(s) + i;
      EXPECT_EQ(state.next_positions().values<int32_t>()[static_cast<size_t>(s)],
                first_offsets.length(s) + i);
      rows.slice_rows(s, 1).copy_from(x.slice_rows(at, 1));
    }
    const Tensor y = decoder.step(rows, state);
    for (int64_t s = 0; s < 3; ++s) {
      const int64_t at = whole_offsets.begin(s) + first_offsets.length(s) + i;
      expect_close(y.slice_rows(s, 1), whole.slice_rows(at, 1), "step", 4e-6);
    }
  }
}

// Rotary positions are relative: attention is invariant to shifts of the whole sequence, but not to its
// order.
TEST(LanguageDecoder, RotaryScoresDependOnDistances) {
  const RotaryTable table = nn::rotary_table({.rotary_base = 10000}, 6, 40);
  const auto at = [](std::vector<int32_t> places) { return Tensor::from(places, {3}); };
  const Tensor q = random_tensor({3, 6}, 1), k = random_tensor({3, 6}, 2);
  const auto scores = [&](const Tensor& queries, const Tensor& keys) {
    const Tensor a = rotary(q, 1, table, queries).value(), b = rotary(k, 1, table, keys).value();
    std::vector<float> products;
    for (int64_t i = 0; i < 3; ++i) {
      float sum = 0;
      for (int64_t c = 0; c < 6; ++c) sum += a.data()[i * 6 + c] * b.data()[i * 6 + c];
      products.push_back(sum);
    }
    return products;
  };
  const auto here = scores(at({4, 9, 2}), at({1, 1, 0})), there = scores(at({30, 35, 28}), at({27, 27, 26}));
  const auto closer = scores(at({4, 9, 2}), at({3, 8, 1}));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(here[i], there[i], 1e-5);
    EXPECT_GT(std::abs(here[i] - closer[i]), 1e-3);
  }
}

TEST(LanguageDecoder, EveryParameterGetsAGradient) {
  const nn::Decoder decoder(language_stack());
  nn::initialise(decoder, 16);
  const Variable x = Variable::parameter(random_tensor({9, 24}, 5));
  nn::ForwardContext context;
  Tape tape;
  const Variable y = decoder(x, Offsets({0, 4, 9}), {}, context);
  tape.backward(weighted_sum(y, random_tensor({9, 24}, 6)));
  decoder.visit([](const std::string& name, const nn::Parameter& parameter) {
    ASSERT_TRUE(parameter.variable.has_grad()) << name;
    float largest = 0;
    for (const float g : parameter.variable.grad().values()) largest = std::max(largest, std::abs(g));
    EXPECT_GT(largest, 1e-4f) << name;
  });
}

TEST(Encoder, TakesNoTokens) {
  for (const auto kind : {nn::PositionKind::none, nn::PositionKind::rotary, nn::PositionKind::relative,
                          nn::PositionKind::alibi}) {
    // Its table of angles is this test's alone.
    const nn::Encoder encoder(
        {.layers = 1,
         .layer = {.d_model = 12, .heads = 2, .d_ff = 9, .positions = {.kind = kind, .rotary_base = 1234}}});
    nn::initialise(encoder, 4);
    for (const int64_t sequences : {0, 3}) {
      nn::ForwardContext context;
      const Variable y = encoder(Tensor::zeros({0, 12}), Offsets::uniform(sequences, 0), context);
      EXPECT_EQ(y.shape(), (Shape{0, 12}));
    }
  }
}

// A changed parameter would give the gradient of another function.
TEST(Encoder, RefusesARecomputedLayerWhoseParametersChanged) {
  const nn::Encoder encoder({.layers = 2, .layer = {.d_model = 12, .heads = 2, .d_ff = 9}});
  nn::initialise(encoder, 4);
  for (const bool recompute : {false, true}) {
    nn::ForwardContext context{.training = true, .recompute = recompute};
    Tape tape;
    const Variable y = encoder(random_tensor({5, 12}, 3), Offsets::uniform(1, 5), context);
    encoder.visit([](const std::string& name, const nn::Parameter& parameter) {
      if (name == "layers.1.self_attn.q_proj.weight") Variable(parameter.variable).mark_modified();
    });
    expect_throw<UsageError>("layers.1", [&] { tape.backward(y, random_tensor({5, 12}, 4)); });
  }
}

TEST(Encoder, SequencesHaveTheSameBitsInAnyBatch) {
  const nn::Encoder encoder(small_stack(nn::NormPlacement::post));
  nn::initialise(encoder, 7);
  const Offsets offsets({0, 7, 8, 40, 61});
  const Tensor x = random_tensor({61, 24}, 8);
  nn::ForwardContext context;
  const Tensor together = encoder(x, offsets, context).value();
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const Tensor own = x.slice_rows(offsets.begin(s), offsets.length(s));
    const Tensor alone = encoder(own, Offsets::uniform(1, offsets.length(s)), context).value();
    for (int64_t i = 0; i < alone.numel(); ++i) {
      ASSERT_EQ(alone.data()[i], together.data()[offsets.begin(s) * 24 + i]) << "sequence " << s;
    }
  }
}

TEST(MultiheadAttention, RejectsInvalidOptions) {
  EXPECT_THROW(nn::MultiheadAttention({.d_model = 10, .heads = 3}), UsageError);
  EXPECT_NO_THROW(nn::MultiheadAttention({.d_model = 10, .heads = 3, .d_k = 4, .d_v = 2}));
  const nn::MultiheadAttention attention({.d_model = 8, .heads = 2});
  nn::initialise(attention, 1);
  nn::ForwardContext context;
  EXPECT_THROW(attention.self(random_tensor({5, 7}, 1), Offsets({0, 5}), {}, context), ShapeError);
  EXPECT_THROW(attention.self(random_tensor({5, 8}, 1), Offsets({0, 6}), {}, context), ShapeError);
}

TEST(MultiheadAttention, StepsRequireALongEnoughRelativeBias) {
  const nn::MultiheadAttention attention({.d_model = 24, .heads = 4});
  nn::initialise(attention, 9);
  nn::KeyValueCache cache(1);
  const Tensor x = random_tensor({1, 24}, 3);
  attention.self_step(x, cache, random_tensor({4, 1}, 1));
  attention.self_step(x, cache, random_tensor({4, 3}, 1));
  EXPECT_THROW(attention.self_step(x, cache, random_tensor({4, 3}, 1)), ShapeError) << "3 positions need 5";
  EXPECT_THROW(attention.self_step(x, cache, random_tensor({2, 9}, 1)), ShapeError) << "heads";
}

TEST(MultiheadAttention, GroupedHeadsStepsMatchTheFullForwardPass) {
  EXPECT_THROW(nn::MultiheadAttention({.d_model = 24, .heads = 4, .key_heads = 3}), UsageError);
  const nn::MultiheadAttention attention({.d_model = 24, .heads = 4, .key_heads = 2});
  nn::initialise(attention, 9);
  EXPECT_EQ(nn::count_parameters(attention), 2 * 24 * (24 + 1) + 2 * 12 * (24 + 1));
  const int64_t length = 20;
  const Tensor x = random_tensor({length, 24}, 3);
  nn::ForwardContext context;
  const Tensor whole = attention.self(x, Offsets::uniform(1, length), {.causal = true}, context).value();
  nn::KeyValueCache cache(1);
  for (int64_t i = 0; i < length; ++i) {
    expect_close(attention.self_step(x.slice_rows(i, 1), cache), whole.slice_rows(i, 1), "position", 2e-6);
  }
  const Tensor queries = random_tensor({2, 24}, 4);
  const Offsets two({0, 2}), all = Offsets::uniform(1, length);
  const nn::MemoryKeyValues memory = attention.encode_memory(x, all);
  expect_close(attention.cross_step(queries, two, memory),
               attention.cross(queries, two, x, x, all, {}, context).value(), "memory", 2e-6);
}

TEST(Embedding, RejectsPositionsBeyondTheLearnedTable) {
  const nn::Parameter table(Shape{11, 6}, {nn::Initializer::Kind::normal, 1.0f});
  const nn::Embedding embedding(
      {.d_model = 6, .positions = {.kind = nn::PositionKind::learned, .max_positions = 4}}, table.variable);
  nn::initialise("table", table, 1);
  nn::initialise(embedding, 2);
  nn::ForwardContext context;
  const auto ids = [](int n) { return Tensor::from(std::vector<int32_t>(static_cast<size_t>(n), 3), {n}); };
  EXPECT_EQ(embedding({ids(4), Offsets({0, 4})}, context).shape(), (Shape{4, 6}));
  EXPECT_THROW(embedding({ids(5), Offsets({0, 5})}, context), UsageError);
}

// Padding in a text takes the row before the first and is not counted, as in RoBERTa; position i of a text is
// row first_row + the number of other tokens before it.
TEST(Embedding, SkipsPadTokens) {
  const nn::Parameter table(Shape{11, 6}, {nn::Initializer::Kind::normal, 1.0f});
  const auto embedding = [&](int64_t pad_id) {
    nn::Embedding all({.d_model = 6,
                       .scale = false,
                       .positions = {.kind = nn::PositionKind::learned,
                                     .max_positions = 8,
                                     .first_row = 2,
                                     .pad_id = pad_id}},
                      table.variable);
    nn::initialise(all, 2);
    return all;
  };
  nn::initialise("table", table, 1);
  const std::vector<int32_t> ids{3, 1, 4, 1, 1, 5, /*second text*/ 1, 7};
  const Offsets offsets({0, 6, 8});
  const auto rows_of = [&](const nn::Embedding& one) {
    Tensor positions;
    one.visit([&](const std::string&, const nn::Parameter& p) { positions = p.variable.value(); });
    nn::ForwardContext context;
    const Tensor y = one({Tensor::from(ids, {8}), offsets}, context).value();
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t row = 0; row < 8; ++row) {
        double difference = 0;
        for (int64_t c = 0; c < 6; ++c)
          difference +=
              std::abs(double{y.at(i, c)} - table.variable.value().at(ids[static_cast<size_t>(i)], c) -
                       positions.at(row, c));
        if (difference < 1e-5) rows.push_back(row);
      }
    }
    return rows;
  };
  EXPECT_EQ(rows_of(embedding(1)), (std::vector<int64_t>{2, 1, 3, 1, 1, 4, 1, 2}));
  EXPECT_EQ(rows_of(embedding(-1)), (std::vector<int64_t>{2, 3, 4, 5, 6, 7, 2, 3}));
}

// Adds word, position and type embeddings and normalises, as in BERT.
TEST(Embedding, AddsTypesAndNormalises) {
  const nn::Parameter table(Shape{11, 6}, {nn::Initializer::Kind::normal, 1.0f});
  const nn::Embedding embedding(
      {.d_model = 6,
       .scale = false,
       .positions = {.kind = nn::PositionKind::learned, .max_positions = 8, .first_row = 2},
       .token_types = 2,
       .norm = true,
       .epsilon = 1e-12f},
      table.variable);
  nn::initialise("table", table, 1);
  nn::initialise(embedding, 2);
  std::map<std::string, Tensor> parts;
  embedding.visit([&](const std::string& name, const nn::Parameter& p) { parts[name] = p.variable.value(); });
  const std::vector<int32_t> ids{3, 10, 0}, types{0, 1, 1};
  nn::ForwardContext context;
  const Tensor y =
      embedding({Tensor::from(ids, {3}), Offsets({0, 2, 3})}, context, {.types = Tensor::from(types, {3})})
          .value();
  const int64_t places[] = {2, 3, 2};
  for (int64_t i = 0; i < 3; ++i) {
    double sum[6], mean = 0, variance = 0;
    for (int64_t c = 0; c < 6; ++c) {
      sum[c] = double{table.variable.value().data()[ids[static_cast<size_t>(i)] * 6 + c]} +
               double{parts["embed_positions.weight"].data()[places[i] * 6 + c]} +
               double{parts["embed_types.weight"].data()[types[static_cast<size_t>(i)] * 6 + c]};
      mean += sum[c] / 6;
    }
    for (const double value : sum) variance += (value - mean) * (value - mean) / 6;
    for (int64_t c = 0; c < 6; ++c) {
      EXPECT_NEAR(y.data()[i * 6 + c], (sum[c] - mean) / std::sqrt(variance), 2e-5);
    }
  }
  const auto of_type = [&](int32_t type) {
    embedding({Tensor::from(std::vector<int32_t>{1}, {1}), Offsets({0, 1})}, context,
              {.types = Tensor::from(std::vector<int32_t>{type}, {1})});
  };
  EXPECT_NO_THROW(of_type(1));
  EXPECT_THROW(of_type(2), DataError);
}

TEST(Initialise, DependsOnSeedAndNameOnly) {
  const nn::Linear linear({.inputs = 20, .outputs = 30});
  nn::initialise(linear, 3);
  const Tensor first = linear.weight().variable.value().clone();
  nn::initialise(linear, 3);
  EXPECT_TRUE(std::ranges::equal(first.values(), linear.weight().variable.value().values()));
  nn::initialise(linear, 4);
  EXPECT_FALSE(std::ranges::equal(first.values(), linear.weight().variable.value().values()));
  const float bound = std::sqrt(6.0f / 50.0f);
  double squares = 0;
  for (const float x : first.values()) {
    ASSERT_LE(std::abs(x), bound);
    squares += double{x} * x;
  }
  EXPECT_NEAR(squares / 600, bound * bound / 3, 0.1 * bound * bound / 3);
}

}  // namespace

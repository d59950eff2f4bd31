// Decoders: cached steps, masks, positions, gradients.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "qkv/nn/decoder.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/rotary.h"
#include "tests/nn/small_stacks.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

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

}  // namespace

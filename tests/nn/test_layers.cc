// Stacks whose layers differ in all that a layer can say, against the formulas in double precision: outputs,
// gradients, cached positions.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "qkv/nn/decoder.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/nn/layer_formulas.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

constexpr int64_t kModel = 24;

nn::StackOptions different_layers(bool reads_memory = false) {
  nn::LayerOptions a{.d_model = kModel, .heads = 4, .d_ff = 20, .norm = nn::NormPlacement::pre};
  a.reads_memory = reads_memory;
  a.norm_kind = nn::NormKind::rms;
  a.activation = Activation::silu;
  std::vector<nn::LayerOptions> layers(11, a);
  layers[0].key_heads = 2;
  layers[0].d_k = 6;
  layers[0].d_v = 5;
  layers[0].gated = true;
  layers[0].inner_bias = false;
  layers[0].attention = {.bias = {.output = false},
                         .positions = {.kind = nn::PositionKind::rotary},
                         .window = 5,
                         .query_key_norm = nn::QueryKeyNorm::head};
  layers[1].norm = nn::NormPlacement::both;
  layers[1].layer_scale = layers[3].layer_scale = true;
  layers[1].attention = {.bias = nn::ProjectionBiases::all(false),
                         .scale = 0.3f,
                         .softcap = 2,
                         .sinks = true,
                         .value_scale = 0.7f};
  layers[2].norm = nn::NormPlacement::output;
  layers[2].norm_kind = nn::NormKind::layer;
  layers[2].heads = 3;
  layers[2].d_ff = 31;
  layers[2].attention = {
      .bias = {.key = false, .value = false},
      .positions = {.kind = nn::PositionKind::rotary, .rotary_base = 50, .rotary_features = 4},
      .query_key_norm = nn::QueryKeyNorm::all_heads};
  layers[3].order = reads_memory ? nn::SublayerOrder::serial : nn::SublayerOrder::parallel;
  layers[3].norm_kind = nn::NormKind::layer;
  layers[3].residual_scale = 0.5f;
  layers[3].norm_bias = false;
  layers[3].attention = {.positions = {.kind = nn::PositionKind::rotary, .rotary_features = 2},
                         .window = 9,
                         .query_key_norm = nn::QueryKeyNorm::rotated_head,
                         .sinks = true};
  layers[4].order = reads_memory ? nn::SublayerOrder::serial : nn::SublayerOrder::parallel_one_norm;
  layers[4].feed_forward_bias = false;
  layers[4].attention = {.positions = {.kind = nn::PositionKind::rotary,
                                       .rotary_scaling = {.first_positions = 3, .query_growth = 0.4}}};
  layers[5].norm = nn::NormPlacement::post;
  layers[5].norm_kind = nn::NormKind::layer;
  layers[5].norm_bias = false;
  layers[5].residual_scale = 2;
  layers[6].norm_kind = nn::NormKind::layer;
  layers[6].norm_bias = layers[6].attention_norm = false;
  layers[6].activation = Activation::relu_squared;
  layers[6].attention = {.positions = {.kind = nn::PositionKind::rotary},
                         .query_key_norm = nn::QueryKeyNorm::each_head,
                         .clip = 0.3f};
  layers[7].norm_weight = false;
  layers[7].xielu = layers[7].layer_scalar = true;
  layers[7].attention = {.positions = {.kind = nn::PositionKind::rotary, .rotary_backwards = true},
                         .query_key_norm = nn::QueryKeyNorm::rotated_head};
  layers[8].key_heads = 2;
  layers[8].d_k = layers[8].d_v = 8;
  layers[8].attention = {.positions = {.kind = nn::PositionKind::rotary, .rotary_angles = 3},
                         .query_key_norm = nn::QueryKeyNorm::plain_head};
  layers[8].attention.keys_as_values = layers[8].attention.value_norm = !reads_memory;
  for (const size_t i : {size_t{9}, size_t{10}}) {
    layers[i].key_heads = layers[i].heads;
    layers[i].d_k = 6;
    layers[i].d_v = 5;
    layers[i].attention = {.positions = {.kind = nn::PositionKind::rotary, .rotary_features = 4},
                           .latent = {.rank = 7, .query_rank = i == 9 ? 6 : 0}};
  }
  layers[9].feed_forward_output_norm = true;
  layers[10].attention.positions.rotary_scaling = {.first_positions = 3, .query_growth = 0.4};
  return {.layers = layers, .final_norm = true};
}

// Random values for all parameters, those that begin as 0 and 1 too.
template <class Module>
void randomise(const Module& module) {
  nn::initialise(module, 3);
  uint64_t seed = 100;
  module.visit([&](const std::string&, const nn::Parameter& parameter) {
    Tensor value = parameter.variable.value().clone();
    const Tensor change = random_tensor(value.shape(), ++seed);
    for (int64_t i = 0; i < value.numel(); ++i) value.data()[i] += 0.2f * change.data()[i];
    parameter.set_value({value});
  });
}

Rows rows_of(const Tensor& x, int64_t first, int64_t count) {
  Rows rows;
  for (int64_t r = first; r < first + count; ++r)
    rows.emplace_back(x.data() + r * x.cols(), x.data() + (r + 1) * x.cols());
  return rows;
}

void expect_near(const Tensor& found, int64_t first, const Rows& expected, const std::string& what) {
  for (size_t r = 0; r < expected.size(); ++r) {
    for (size_t c = 0; c < expected[r].size(); ++c) {
      ASSERT_NEAR(found.data()[(first + static_cast<int64_t>(r)) * found.cols() + static_cast<int64_t>(c)],
                  expected[r][c], 2e-5)
          << what << ", row " << r << ", feature " << c;
    }
  }
}

double dot(const Rows& x, const Tensor& weights) {
  double sum = 0;
  size_t i = 0;
  for (const Row& row : x) {
    for (const double value : row) sum += value * double{weights.data()[i++]};
  }
  return sum;
}

constexpr int64_t kPlaces = 21;  // of the first sequence; the second has 4
const Offsets kTwoSequences({0, kPlaces, kPlaces + 4});

TEST(LayersThatDiffer, AgreeWithTheFormulasInAnEncoder) {
  const nn::StackOptions options = different_layers();
  const nn::Encoder encoder(options);
  randomise(encoder);
  const Tensor x = random_tensor({kPlaces + 4, kModel}, 1);
  nn::ForwardContext context;
  const Tensor y = encoder(x, kTwoSequences, context).value();
  const Formulas formulas(encoder);
  expect_near(y, 0, formulas.stack(options, rows_of(x, 0, kPlaces), false), "the first sequence");
  expect_near(y, kPlaces, formulas.stack(options, rows_of(x, kPlaces, 4), false), "the second sequence");
}

TEST(LayersThatDiffer, AgreeWithTheFormulasInADecoderWithMemory) {
  const nn::StackOptions options = different_layers(true);
  const nn::Decoder decoder(options);
  randomise(decoder);
  const Tensor x = random_tensor({kPlaces, kModel}, 1), memory = random_tensor({7, kModel}, 2);
  const nn::Memory read{memory, Offsets::uniform(1, 7)};
  nn::ForwardContext context;
  const Rows expected = Formulas(decoder).stack(options, rows_of(x, 0, kPlaces), true, rows_of(memory, 0, 7));
  expect_near(decoder(x, Offsets::uniform(1, kPlaces), read, context).value(), 0, expected, "at once");
  nn::DecoderState state = decoder.start(read);
  for (int64_t i = 0; i < kPlaces; ++i)
    expect_near(decoder.step(x.slice_rows(i, 1), state), 0, {expected[static_cast<size_t>(i)]}, "a step");
}

// At once, read in chunks, and step by step.
TEST(LayersThatDiffer, AgreeWithTheFormulasFromACache) {
  const nn::StackOptions options = different_layers();
  const nn::Decoder decoder(options);
  randomise(decoder);
  const Tensor x = random_tensor({kPlaces, kModel}, 1);
  const Rows expected = Formulas(decoder).stack(options, rows_of(x, 0, kPlaces), true);
  nn::ForwardContext context;
  const nn::Memory none{.offsets = Offsets::uniform(1, 0)};
  expect_near(decoder(x, Offsets::uniform(1, kPlaces), none, context).value(), 0, expected, "at once");
  nn::DecoderState state = decoder.start(none);
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 8}, {9, 3}}) {
    const Tensor y = decoder.read(x.slice_rows(first, count), Offsets::uniform(1, count), state);
    expect_near(y, 0, {expected.begin() + first, expected.begin() + first + count}, "a chunk");
  }
  for (int64_t i = 12; i < kPlaces; ++i)
    expect_near(decoder.step(x.slice_rows(i, 1), state), 0, {expected[static_cast<size_t>(i)]}, "a step");
}

// Each parameter's gradient along a random direction equals the difference quotient of the formulas.
TEST(LayersThatDiffer, HaveTheGradientsOfTheFormulas) {
  constexpr int64_t kRows = 12;
  const nn::StackOptions options = different_layers();
  const nn::Decoder decoder(options);
  randomise(decoder);
  const Tensor x = random_tensor({kRows, kModel}, 1), weights = random_tensor({kRows, kModel}, 2);
  const auto gradients = [&](bool recompute) {
    nn::ForwardContext context{.training = true, .recompute = recompute};
    Tape tape;
    tape.backward(decoder(x, Offsets::uniform(1, kRows), {.offsets = Offsets::uniform(1, 0)}, context),
                  weights);
    std::map<std::string, Tensor> all;
    decoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
      all[name] = parameter.variable.grad().clone();
      parameter.variable.clear_grad();
    });
    return all;
  };
  const auto found = gradients(false), recomputed = gradients(true);
  Formulas formulas(decoder);
  uint64_t seed = 500;
  for (const auto& [name, gradient] : found) {
    EXPECT_TRUE(std::ranges::equal(gradient.values(), recomputed.at(name).values())) << name;
    const Tensor direction = random_tensor(gradient.shape(), ++seed);
    Row& values = formulas.numbers().at(name);
    const Row before = values;
    const auto loss = [&](double step) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = before[i] + step * double{direction.data()[i]};
      return dot(formulas.stack(options, rows_of(x, 0, kRows), true), weights);
    };
    const double measured = (loss(1e-5) - loss(-1e-5)) / 2e-5;
    values = before;
    double along = 0, square = 0;
    for (int64_t i = 0; i < gradient.numel(); ++i) {
      along += double{gradient.data()[i]} * double{direction.data()[i]};
      square += double{gradient.data()[i]} * double{gradient.data()[i]};
    }
    EXPECT_NEAR(along, measured, 1e-4 * (std::sqrt(square) + 1)) << name;
    // Without positions, a bias of the keys adds the same to all scores of a row.
    if (name != "layers.4.self_attn.k_proj.bias" && name != "layers.5.self_attn.k_proj.bias") {
      EXPECT_GT(square, 1e-6) << name;
    }
  }
}

TEST(LayersThatDiffer, AreRefusedWhereTheyCannotBe) {
  nn::StackOptions options = different_layers();
  options.layers[2].d_model = 12;
  expect_throw<UsageError>("layer 2: d_model", [&] { nn::Encoder{options}; });
  options = different_layers(true);
  options.layers[0].order = nn::SublayerOrder::parallel;
  expect_throw<UsageError>("cross attention", [&] { nn::Decoder{options}; });
  options.layers[0].norm = nn::NormPlacement::post;
  expect_throw<UsageError>("norms before the sublayers", [&] { nn::Decoder{options}; });
  options = different_layers();
  options.layers[1].attention.positions.kind = nn::PositionKind::relative;
  expect_throw<UsageError>("relative positions", [&] { nn::Encoder{options}; });
  for (const int64_t features : {-2, 1, 3, 8}) {
    const nn::PositionOptions positions{.kind = nn::PositionKind::rotary, .rotary_features = features};
    expect_throw<UsageError>("rotary_features", [&] {
      nn::MultiheadAttention({.d_model = 12, .heads = 2, .variant = {.positions = positions}});
    });
  }
  const nn::PositionOptions partly{.kind = nn::PositionKind::rotary,
                                   .rotary_scaling = {.first_positions = 2, .query_growth = 0.1},
                                   .rotary_features = 4};
  expect_throw<UsageError>("query_growth", [&] {
    nn::MultiheadAttention({.d_model = 12, .heads = 2, .variant = {.positions = partly}});
  });
  EXPECT_EQ(options.first(), options.layers[0]);
  expect_throw<UsageError>("layer 1", [&] { options.uniform(); });
}

}  // namespace

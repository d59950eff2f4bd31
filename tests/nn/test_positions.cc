// Positions applied in attention, compared with transformers (tests/golden/positions.py), with a dense
// reference, and step by step with the whole.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "qkv/base/error.h"
#include "qkv/nn/attention/relative_positions.h"
#include "qkv/nn/decoder.h"
#include "qkv/nn/encoder.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/rotary.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

Golden golden() { return Golden(QKV_TEST_DATA "/nn/golden/positions.safetensors"); }

TEST(RelativePositions, BucketsMatchTransformers) {
  const Golden expected = golden();
  int cases = 0;
  for (const std::string& name : expected.names()) {
    if (!name.starts_with("buckets.")) continue;
    ++cases;
    const size_t first = name.find('.') + 1, second = name.find('.', first) + 1;
    const nn::PositionOptions options{.kind = nn::PositionKind::relative,
                                      .buckets = std::stoll(name.substr(first)),
                                      .max_distance = std::stoll(name.substr(second))};
    const auto direction = name.ends_with("both") ? nn::Direction::both : nn::Direction::backwards;
    const Tensor buckets = expected[name];
    for (int64_t distance = -300; distance <= 300; ++distance) {
      ASSERT_EQ(nn::relative_bucket(distance, options, direction),
                buckets.values<int32_t>()[static_cast<size_t>(distance + 300)])
          << name << ", distance " << distance;
    }
  }
  EXPECT_EQ(cases, 8);
}

TEST(DistanceVectors, RowsMatchTransformers) {
  const Golden expected = golden();
  int cases = 0;
  for (const std::string& name : expected.names()) {
    if (!name.starts_with("distances.")) continue;
    ++cases;
    const size_t first = name.find('.') + 1, second = name.find('.', first) + 1;
    const nn::PositionOptions options{.kind = nn::PositionKind::disentangled,
                                      .buckets = std::stoll(name.substr(first)),
                                      .max_distance = std::stoll(name.substr(second))};
    const Tensor rows = expected[name];
    for (int64_t distance = -700; distance <= 700; ++distance) {
      ASSERT_EQ(nn::distance_row(distance, options),
                rows.values<int32_t>()[static_cast<size_t>(distance + 700)])
          << name << ", distance " << distance;
    }
    EXPECT_EQ(nn::distance_row(INT64_MAX, options), 2 * options.buckets - 1);
    EXPECT_EQ(nn::distance_row(INT64_MIN, options), std::max<int64_t>(0, nn::distance_row(-700, options)));
  }
  EXPECT_EQ(cases, 6);
}

TEST(DistanceVectors, AreOfEncodersAlone) {
  nn::LayerOptions layer{.d_model = 8, .heads = 2, .d_ff = 12};
  layer.attention.positions = {.kind = nn::PositionKind::disentangled, .buckets = 4, .max_distance = 9};
  EXPECT_THROW(nn::Decoder({.layers = {layer}}), UsageError);
  nn::LayerOptions other = layer;
  other.attention.positions.buckets = 6;
  EXPECT_THROW(nn::Encoder({.layers = {layer, other}}), UsageError);
  layer.attention.positions.max_distance = 3;
  EXPECT_THROW(nn::Encoder({.layers = {layer}}), UsageError);
}

TEST(Alibi, SlopesMatchTransformers) {
  const Golden expected = golden();
  int cases = 0;
  for (const std::string& name : expected.names()) {
    if (!name.starts_with("slopes.")) continue;
    ++cases;
    expect_close(nn::alibi_slopes(std::stoll(name.substr(7))), expected[name], name, 1e-7);
  }
  EXPECT_EQ(cases, 6);
}

TEST(Rotary, ScaledAnglesMatchTransformers) {
  using Kind = nn::RotaryScalingKind;
  const nn::RotaryScaling linear{.kind = Kind::linear, .factor = 2.5},
      llama3{.kind = Kind::llama3, .factor = 8, .first_positions = 64, .low = 1, .high = 4},
      yarn{.kind = Kind::yarn, .factor = 4, .first_positions = 256, .magnitude = 0.1 * std::log(4.0) + 1};
  nn::RotaryScaling longrope{.kind = Kind::longrope,
                             .factor = 2,
                             .first_positions = 1000,
                             .magnitude = std::sqrt(1 + std::log(2.0) / std::log(1000.0))};
  for (int i = 0; i < 12; ++i) longrope.short_factors.push_back(1 + 0.25 * i);
  const Golden expected = golden();
  for (const auto& [name, scaling] : {std::pair<const char*, nn::RotaryScaling>{"rotary.none", {}},
                                      {"rotary.linear", linear},
                                      {"rotary.llama3", llama3},
                                      {"rotary.yarn", yarn},
                                      {"rotary.longrope", longrope}}) {
    const RotaryTable table = nn::rotary_table({.rotary_base = 5000, .rotary_scaling = scaling}, 24, 901);
    const Tensor numbers = expected[name];
    const int64_t places[] = {1, 7, 900};
    for (int64_t i = 0; i < 36; ++i) {
      // An angle of position 900 has the precision of a float of its size.
      const int64_t place = places[i / 12], angle = i % 12;
      EXPECT_NEAR(table.cosines.data()[place * 12 + angle], numbers.data()[i], 2e-4) << name << ' ' << i;
      EXPECT_NEAR(table.sines.data()[place * 12 + angle], numbers.data()[36 + i], 2e-4) << name << ' ' << i;
      if (place > 7) continue;
      EXPECT_NEAR(table.cosines.data()[place * 12 + angle], numbers.data()[i], 2e-6) << name << ' ' << i;
    }
  }
}

TEST(Rotary, LongropeIsRefusedBeyondItsFirstPositions) {
  const nn::PositionOptions options{.rotary_scaling = {.kind = nn::RotaryScalingKind::longrope,
                                                       .first_positions = 10,
                                                       .short_factors = {1, 2, 3}}};
  EXPECT_GE(nn::rotary_table(options, 6, 10).cosines.rows(), 10);
  expect_throw<UsageError>("at most 10 positions, found 11", [&] { nn::rotary_table(options, 6, 11); });
  expect_throw<UsageError>("short_factors", [&] { nn::rotary_table(options, 8, 10); });
}

nn::StackOptions positions_stack(nn::PositionKind kind, int64_t layers = 2) {
  return {.layers =
              nn::alike(layers, {.d_model = 12,
                                 .heads = 3,
                                 .d_k = 4,
                                 .d_v = 4,
                                 .d_ff = 20,
                                 .activation = Activation::silu,
                                 .attention = {.positions = {.kind = kind, .buckets = 8, .max_distance = 12}},
                                 .reads_memory = false})};
}

Tensor parameter_of(const nn::Encoder& encoder, const std::string& wanted) {
  Tensor found;
  encoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (name == wanted) found = parameter.variable.value();
  });
  return found;
}

TEST(Rotary, QueriesGrowWithThePosition) {
  nn::PositionOptions options{.rotary_base = 5000};
  const RotaryTable plain = nn::rotary_table(options, 6, 12);
  options.rotary_scaling.query_growth = 0.5;
  expect_throw<UsageError>("first_positions", [&] { nn::rotary_table(options, 6, 12); });
  options.rotary_scaling.first_positions = 4;
  const RotaryTable grown = nn::rotary_table(options, 6, 12);
  for (int64_t place = 0; place < 12; ++place) {
    const double factor = 1 + 0.5 * std::log(1 + std::floor(static_cast<double>(place) / 4));
    for (int64_t i = place * 3; i < place * 3 + 3; ++i) {
      EXPECT_NEAR(grown.cosines.data()[i], factor * double{plain.cosines.data()[i]}, 1e-6) << place;
      EXPECT_NEAR(grown.sines.data()[i], factor * double{plain.sines.data()[i]}, 1e-6) << place;
    }
  }
}

// A mask with positions by distance equals attention with an explicit bias.
TEST(RelativePositions, AreADistanceBias) {
  for (const auto kind : {nn::PositionKind::relative, nn::PositionKind::alibi}) {
    const nn::Encoder encoder(positions_stack(kind)), plain(positions_stack(nn::PositionKind::none));
    nn::initialise(encoder, 3);
    nn::initialise(plain, 3);  // values are a function of the name
    const int64_t n = 17;
    Tensor bias = Tensor::empty({1, 3, n, n});
    const nn::PositionOptions options = positions_stack(kind).first().attention.positions;
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          bias.data()[(h * n + i) * n + j] =
              kind == nn::PositionKind::alibi
                  ? -nn::alibi_slopes(3).data()[h] * static_cast<float>(std::abs(i - j))
                  : parameter_of(encoder, "relative_positions.weight")
                        .data()[nn::relative_bucket(j - i, options, nn::Direction::both) * 3 + h];
        }
      }
    }
    const Tensor x = random_tensor({n, 12}, 1);
    nn::ForwardContext context;
    const Tensor found = encoder(x, Offsets({0, n}), context).value();
    expect_close(found, plain(x, Offsets({0, n}), context, {.bias = bias}).value(), "biased", 2e-6);
    const Tensor without = plain(x, Offsets({0, n}), context).value();
    float most = 0;
    for (int64_t i = 0; i < without.numel(); ++i)
      most = std::max(most, std::abs(without.data()[i] - found.data()[i]));
    EXPECT_GT(most, 1e-2f) << "positions are to be seen";
  }
}

TEST(RelativePositions, StepsMatchTheFullForwardPass) {
  for (const auto kind : {nn::PositionKind::relative, nn::PositionKind::alibi}) {
    const nn::Decoder decoder(positions_stack(kind));
    nn::initialise(decoder, 4);
    // Read at once, and continued from different positions.
    const Offsets whole_offsets({0, 24, 45}), first({0, 5, 7});
    const Tensor x = random_tensor({45, 12}, 2);
    nn::ForwardContext context;
    const Tensor whole = decoder(x, whole_offsets, {}, context).value();
    Tensor beginnings = Tensor::empty({7, 12});
    for (int64_t s = 0; s < 2; ++s) {
      beginnings.slice_rows(first.begin(s), first.length(s))
          .copy_from(x.slice_rows(whole_offsets.begin(s), first.length(s)));
    }
    nn::DecoderState state = decoder.start({.offsets = first});
    decoder.read(beginnings, first, state);
    for (int64_t i = 0; i < 19; ++i) {
      Tensor rows = Tensor::empty({2, 12});
      const auto at = [&](int64_t s) { return whole_offsets.begin(s) + first.length(s) + i; };
      for (int64_t s = 0; s < 2; ++s) rows.slice_rows(s, 1).copy_from(x.slice_rows(at(s), 1));
      const Tensor y = decoder.step(rows, state);
      for (int64_t s = 0; s < 2; ++s)
        expect_close(y.slice_rows(s, 1), whole.slice_rows(at(s), 1), "step", 4e-6);
    }
  }
}

// A sequence's bits do not depend on the lengths of others, although the table by distance has the longest's
// size.
TEST(RelativePositions, HaveTheSameBitsInAnyBatch) {
  const nn::Encoder encoder(positions_stack(nn::PositionKind::relative));
  nn::initialise(encoder, 7);
  const Offsets offsets({0, 7, 8, 40});
  const Tensor x = random_tensor({40, 12}, 8);
  nn::ForwardContext context;
  const Tensor together = encoder(x, offsets, context).value();
  for (int64_t s = 0; s < 3; ++s) {
    const int64_t begin = offsets.begin(s), length = offsets.length(s);
    const Tensor alone =
        encoder(x.slice_rows(begin, length), Offsets({0, static_cast<int32_t>(length)}), context).value();
    EXPECT_TRUE(std::ranges::equal(alone.values(), together.slice_rows(begin, length).values())) << s;
  }
}

TEST(RelativePositions, GetGradientsFromEveryLayer) {
  const nn::Encoder encoder(positions_stack(nn::PositionKind::relative));
  nn::initialise(encoder, 5);
  const Tensor x = random_tensor({11, 12}, 6);
  Variable table;
  encoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (name == "relative_positions.weight") table = parameter.variable;
  });
  ASSERT_TRUE(table.defined());
  const Tensor coefficients = random_tensor({11, 12}, 9);
  const Offsets offsets({0, 4, 11});
  std::vector<Tensor> gradients;
  for (const bool recompute : {false, true}) {
    table.clear_grad();
    nn::ForwardContext context;
    context.recompute = recompute;
    Tape tape;
    tape.backward(weighted_sum(encoder(x, offsets, context), coefficients));
    gradients.push_back(table.grad().clone());
  }
  EXPECT_TRUE(std::ranges::equal(gradients[0].values(), gradients[1].values()));

  const auto value = [&] {
    nn::ForwardContext context;
    const Tensor y = encoder(x, offsets, context).value();
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += double{y.data()[i]} * coefficients.data()[i];
    return sum;
  };
  constexpr float kStep = 1e-2f;
  float largest = 0;
  for (int64_t i = 0; i < table.value().numel(); ++i) {
    float& number = table.mutable_value().data()[i];
    const float before = number;
    number = before + kStep;
    const double above = value();
    number = before - kStep;
    const double below = value();
    number = before;
    EXPECT_NEAR(gradients[0].data()[i], (above - below) / (2 * double{kStep}), 2e-3) << i;
    largest = std::max(largest, std::abs(gradients[0].data()[i]));
  }
  EXPECT_GT(largest, 0.05f);
}

TEST(RelativePositions, RejectInvalidOptions) {
  const auto make = [](int64_t buckets, int64_t max_distance, nn::Direction direction) {
    nn::RelativePositions(
        {.kind = nn::PositionKind::relative, .buckets = buckets, .max_distance = max_distance}, 2, direction);
  };
  EXPECT_THROW(make(2, 128, nn::Direction::both), UsageError);
  EXPECT_THROW(make(9, 128, nn::Direction::both), UsageError);
  EXPECT_THROW(make(32, 16, nn::Direction::backwards), UsageError);
  EXPECT_NO_THROW(make(32, 17, nn::Direction::backwards));
  EXPECT_NO_THROW(make(32, 16, nn::Direction::both));
}

}  // namespace

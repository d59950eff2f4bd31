// The generic gradient check of every differentiable operation.

#include <gtest/gtest.h>

#include "qkv/ops/activation.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/gated.h"
#include "qkv/ops/general/distance_scores.h"
#include "qkv/ops/general/prepend.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/norm.h"
#include "qkv/ops/relative_position_bias.h"
#include "qkv/ops/rotary.h"
#include "tests/ops/gradient_check.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

const Dropout kDropout{.rate = 0.3f, .seed = 11, .step = 2, .site = 5, .first_row = 1};

TEST(Gradients, Linear) {
  check_gradients({.function =
                       [](const std::vector<Variable>& in) {
                         return linear(in[0], LinearWeights({in[1], in[2]}, {in[3], {}}));
                       },
                   .inputs = {random_tensor({5, 7}, 1), random_tensor({4, 7}, 2), random_tensor({3, 7}, 3),
                              random_tensor({4}, 4)}});
}

TEST(Gradients, LinearCrossEntropy) {
  static const std::vector<int32_t> labels{3, 0, 8, 8, 1, 5, 2};
  for (const auto& [smoothing, softcap] : {std::pair(0.0f, 0.0f), {0.1f, 0.0f}, {0.1f, 1.5f}}) {
    for (const int64_t chunk : {2, 512}) {
      check_gradients(
          {.function =
               [=](const std::vector<Variable>& in) {
                 return linear_cross_entropy(
                            in[0], LinearWeights({in[1]}, {in[2]}), Tensor::from(labels, {7}),
                            {.label_smoothing = smoothing, .factor = 0.5f, .chunk_rows = chunk}, softcap)
                     .loss;
               },
           .inputs = {random_tensor({7, 6}, 1), random_tensor({9, 6}, 2), random_tensor({9}, 3)}});
    }
  }
}

TEST(Gradients, Activations) {
  for (const Activation activation : {Activation::identity, Activation::gelu_exact, Activation::gelu_tanh,
                                      Activation::silu, Activation::tanh, Activation::quick_gelu}) {
    for (const Dropout& dropout : {Dropout{}, kDropout}) {
      check_gradients({.function = [=](const auto& in) { return activate(in[0], activation, dropout); },
                       .inputs = {random_tensor({6, 21}, 1)}});
    }
  }
}

TEST(Gradients, ReluAwayFromZero) {
  Tensor x = random_tensor({6, 21}, 1);
  for (float& value : x.values()) value += value > 0 ? 0.1f : -0.1f;
  for (const Activation activation : {Activation::relu, Activation::relu_squared}) {
    check_gradients(
        {.function = [=](const auto& in) { return activate(in[0], activation, kDropout); }, .inputs = {x}});
  }
}

TEST(Gradients, Residual) {
  for (const Dropout& dropout : {Dropout{}, kDropout}) {
    check_gradients({.function = [=](const auto& in) { return residual(in[0], in[1], dropout); },
                     .inputs = {random_tensor({4, 19}, 1), random_tensor({4, 19}, 2)}});
  }
}

TEST(Gradients, LayerNorm) {
  check_gradients({.function = [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-3f); },
                   .inputs = {random_tensor({5, 18}, 1), random_tensor({18}, 2), random_tensor({18}, 3)}});
}

TEST(Gradients, ResidualLayerNorm) {
  for (const Dropout& dropout : {Dropout{}, kDropout}) {
    check_gradients(
        {.function =
             [=](const auto& in) { return residual_layer_norm(in[0], in[1], dropout, in[2], in[3], 1e-3f); },
         .inputs = {random_tensor({5, 18}, 1), random_tensor({5, 18}, 2), random_tensor({18}, 3),
                    random_tensor({18}, 4)}});
  }
}

TEST(Gradients, RmsNorm) {
  check_gradients({.function = [](const auto& in) { return rms_norm(in[0], in[1], 1e-3f); },
                   .inputs = {random_tensor({5, 18}, 1), random_tensor({18}, 2)}});
  for (const Dropout& dropout : {Dropout{}, kDropout}) {
    check_gradients(
        {.function = [=](const auto& in) { return residual_rms_norm(in[0], in[1], dropout, in[2], 1e-3f); },
         .inputs = {random_tensor({5, 18}, 1), random_tensor({5, 18}, 2), random_tensor({18}, 3)}});
  }
}

// Weight and bias, each trained or not, and written or added to, independently.
TEST(Gradients, BiasSharedByTwoNorms) {
  check_gradients({.function =
                       [](const auto& in) {
                         return residual(layer_norm(in[0], in[1], in[3], 1e-3f),
                                         layer_norm(in[0], in[2], in[3], 1e-3f));
                       },
                   .inputs = {random_tensor({5, 18}, 1), random_tensor({18}, 2), random_tensor({18}, 3),
                              random_tensor({18}, 4)}});
}

TEST(Gradients, OneParameterOfANorm) {
  const Tensor x = random_tensor({5, 18}, 1), weight = random_tensor({18}, 2), bias = random_tensor({18}, 3);
  check_gradients(
      {.function = [=](const auto& in) { return layer_norm(x, weight, in[0], 1e-3f); }, .inputs = {bias}});
  check_gradients(
      {.function = [=](const auto& in) { return layer_norm(x, in[0], bias, 1e-3f); }, .inputs = {weight}});
}

// The two inputs as columns of one product.
TEST(Gradients, Gated) {
  for (const Dropout& dropout : {Dropout{}, kDropout}) {
    check_gradients({.function =
                         [=](const auto& in) {
                           return gated(in[0].columns(0, 11), in[0].columns(11, 11), Activation::silu,
                                        dropout);
                         },
                     .inputs = {random_tensor({4, 22}, 1)}});
  }
}

TEST(Gradients, Rotary) {
  const RotaryTable table{random_tensor({6, 3}, 2), random_tensor({6, 3}, 3)};
  const Tensor positions = Tensor::from(std::vector<int32_t>{0, 5, 2, 2}, {4});
  check_gradients({.function =
                       [=](const auto& in) {
                         return residual(
                             rotary(in[0].columns(0, 12), 2, table, positions),
                             activate(rotary(in[0].columns(12, 12), 2, table, positions), Activation::silu));
                       },
                   .inputs = {random_tensor({4, 24}, 1)}});
}

TEST(Gradients, Embedding) {
  const Tensor ids = Tensor::from(std::vector<int32_t>{4, 0, 4, 2, 1, 4}, {6});
  const Tensor places = Tensor::from(std::vector<int32_t>{0, 1, 2, 0, 1, 2}, {6});
  for (const Dropout& dropout : {Dropout{}, kDropout}) {
    check_gradients({.function =
                         [=](const auto& in) {
                           return embedding(in[0], ids, in[1],
                                            {.factor = 3.5f, .position = places, .dropout = dropout});
                         },
                     .inputs = {random_tensor({6, 10}, 1), random_tensor({3, 10}, 2)}});
  }
}

TEST(Gradients, Prepend) {
  check_gradients({.function = [](const auto& in) { return prepend(in[0], in[1], 3); },
                   .inputs = {random_tensor({1, 5}, 1), random_tensor({6, 5}, 2)}});
}

TEST(Gradients, Scaled) {
  check_gradients({.function = [](const auto& in) { return scaled(in[0], -0.7f); },
                   .inputs = {random_tensor({3, 5}, 1)}});
}

// Some distances share a bucket, and one bucket is empty.
TEST(Gradients, BiasByDistance) {
  const Tensor buckets = Tensor::from(std::vector<int32_t>{3, 3, 1, 0, 4, 4, 4}, {7});
  const Tensor table = random_tensor({5, 2}, 1);
  const Tensor y = relative_position_bias(table, buckets).value();
  ASSERT_EQ(y.shape(), (Shape{2, 7}));
  EXPECT_EQ(y.data()[7 + 2], table.data()[1 * 2 + 1]);
  check_gradients({.function = [=](const auto& in) { return relative_position_bias(in[0], buckets); },
                   .inputs = {table}});
  EXPECT_THROW(relative_position_bias(random_tensor({4, 2}, 1), buckets), ShapeError) << "bucket 4 of 4";
  EXPECT_THROW(relative_position_bias(random_tensor({8}, 1), buckets), ShapeError);
}

// Queries and keys are columns of wider matrices, of sequences of several lengths.
TEST(Gradients, ScoresByDistance) {
  constexpr int64_t kHeads = 2, kWidth = 3;
  constexpr float kScale = 0.4f;
  for (const Offsets& offsets : {Offsets({0, 1}), Offsets({0, 4}), Offsets({0, 2, 2, 6, 7})}) {
    const int64_t tokens = offsets.tokens(), longest = offsets.max_length();
    const auto scores = [=](const auto& in) {
      constexpr int64_t kColumns = kHeads * kWidth;
      return distance_scores(in[0].columns(0, kColumns), in[0].columns(kColumns, kColumns), in[1], in[2],
                             offsets, kHeads, kScale);
    };
    const std::vector<Tensor> inputs{random_tensor({tokens, 13}, 1), random_tensor({2 * longest - 1, 6}, 2),
                                     random_tensor({2 * longest - 1, 6}, 3)};
    check_gradients({.function = scores, .inputs = inputs});
    const Tensor y = scores(std::vector<Variable>(inputs.begin(), inputs.end())).value();
    ASSERT_EQ(y.shape(), (Shape{offsets.sequences(), kHeads, longest, longest}));
    for (int64_t s = 0; s < offsets.sequences(); ++s) {
      const int64_t first = offsets.begin(s), n = offsets.length(s);
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < longest; ++i) {
          for (int64_t j = 0; j < longest; ++j) {
            double sum = 0;
            for (int64_t c = 3 * h; c < 3 * h + 3 && i < n && j < n; ++c) {
              sum += double{inputs[0].at(first + i, c)} * double{inputs[1].at(j - i + longest - 1, c)} +
                     double{inputs[0].at(first + j, 6 + c)} * double{inputs[2].at(i - j + longest - 1, c)};
            }
            EXPECT_NEAR(y.at(s, h, i, j), kScale * sum, 1e-5);
          }
        }
      }
    }
  }
  const Tensor rows = random_tensor({4, 6}, 1), distances = random_tensor({7, 6}, 2);
  const Offsets one({0, 4});
  EXPECT_THROW(distance_scores(rows, rows, distances, rows, one, 2, 1), ShapeError);
  EXPECT_THROW(distance_scores(rows, distances, distances, distances, one, 2, 1), ShapeError);
  EXPECT_THROW(distance_scores(rows, rows, distances, distances, one, 4, 1), ShapeError);
  EXPECT_THROW(distance_scores(rows, rows, distances, distances, Offsets({0, 2, 4}), 2, 1), ShapeError);
}

TEST(Gradients, ReshapeAndColumns) {
  check_gradients(
      {.function =
           [](const auto& in) {
             const Variable x = reshape(in[0], {4, 6});
             // Two views of one value, and the value itself, all contribute to its gradient.
             return residual(reshape(activate(reshape(in[0], {4, 6}), Activation::silu), {4, 6}), x);
           },
       .inputs = {random_tensor({8, 3}, 1)}});
}

// Queries, keys and values as columns of one matrix, as in a fused projection.
TEST(Gradients, AttentionOnColumns) {
  check_gradients(
      {.function =
           [](const auto& in) {
             const Variable& qkv = in[0];
             const AttentionOptions options{
                 .causal = true, .query_offsets = Offsets({0, 2, 7}), .key_offsets = Offsets({0, 2, 7})};
             return multihead_attention(qkv.columns(0, 6), qkv.columns(6, 6), qkv.columns(12, 8), 2, options)
                 .output;
           },
       .inputs = {random_tensor({7, 20}, 1)}});
}

// options(in): the options, given all inputs. Inputs: query, key, value, and what `options` uses.
template <class Options>
void check_attention(const Options& options, const std::vector<Tensor>& inputs) {
  check_gradients({.function =
                       [=](const auto& in) {
                         return scaled_dot_product_attention(in[0], in[1], in[2], options(in)).output;
                       },
                   .inputs = inputs});
}

// Six query heads and two key heads, with ALiBi.
TEST(Gradients, AttentionWithGroupedHeads) {
  const Tensor slopes = Tensor::from(std::vector{0.5f, 0.3f, 0.2f, 0.1f, 0.05f, 0.0f}, {6});
  check_attention(
      [=](const auto&) {
        return AttentionOptions{.causal = true,
                                .alibi_slopes = slopes,
                                .query_offsets = Offsets({0, 4, 9}),
                                .key_offsets = Offsets({0, 6, 11})};
      },
      {random_tensor({9, 6, 4}, 1), random_tensor({11, 2, 4}, 2), random_tensor({11, 2, 5}, 3)});
}

// More queries than keys and fewer, aligned to the first key, with effective caps.
TEST(Gradients, AttentionWithASoftcap) {
  for (const Alignment alignment : {Alignment::last_key, Alignment::first_key}) {
    check_attention(
        [=](const auto& in) {
          return AttentionOptions{.causal = true,
                                  .alignment = alignment,
                                  .relative_bias = in[3],
                                  .scale = 1.2f,
                                  .softcap = 0.9f,
                                  .query_offsets = Offsets({0, 6, 9}),
                                  .key_offsets = Offsets({0, 4, 11})};
        },
        {random_tensor({9, 2, 4}, 1), random_tensor({11, 2, 4}, 2), random_tensor({11, 2, 5}, 3),
         random_tensor({2, 13}, 4)});
  }
}

// Sequences of different lengths with the same bias by distance.
TEST(Gradients, AttentionWithARelativeBias) {
  check_attention(
      [](const auto& in) {
        return AttentionOptions{
            .relative_bias = in[3], .query_offsets = Offsets({0, 4, 9}), .key_offsets = Offsets({0, 6, 11})};
      },
      {random_tensor({9, 4, 4}, 1), random_tensor({11, 2, 4}, 2), random_tensor({11, 2, 5}, 3),
       random_tensor({4, 13}, 4)});
}

TEST(Gradients, AttentionWithAllOptions) {
  Tensor mask = Tensor::empty({2, 1, 5, 6}, DType::u8);
  for (int64_t i = 0; i < mask.numel(); ++i) mask.data<uint8_t>()[i] = i % 4 != 1;
  check_attention(
      [=](const auto& in) {
        return AttentionOptions{.causal = true,
                                .keep = mask,
                                .bias = in[3],
                                .scale = 0.4f,
                                .dropout = kDropout,
                                .query_offsets = Offsets({0, 4, 9}),
                                .key_offsets = Offsets({0, 6, 11})};
      },
      {random_tensor({9, 3, 4}, 1), random_tensor({11, 3, 4}, 2), random_tensor({11, 3, 5}, 3),
       random_tensor({1, 3, 5, 6}, 4)});
}

}  // namespace

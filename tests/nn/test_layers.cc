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

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// Parameters of a stack in double precision, and the formulas.
class Formulas {
 public:
  template <class Module>
  explicit Formulas(const Module& module) {
    module.visit([&](const std::string& name, const nn::Parameter& parameter) {
      const auto values = parameter.variable.value().values();
      numbers_[name] = Row(values.begin(), values.end());
    });
  }
  std::map<std::string, Row>& numbers() { return numbers_; }

  Rows stack(const nn::StackOptions& options, Rows x, bool causal, const Rows& memory = {}) const {
    for (int64_t i = 0; i < options.size(); ++i)
      x = layer(options.layer_at(i), concat("layers.", i, "."), x, causal, memory);
    return options.final_norm ? norm(options.first().norm_options(), "layer_norm", x) : x;
  }

 private:
  Rows linear(const std::string& name, const Rows& x) const {
    const Row& weight = numbers_.at(name + ".weight");
    const auto bias = numbers_.find(name + ".bias");
    const size_t inputs = x.at(0).size(), outputs = weight.size() / inputs;
    Rows y;
    for (const Row& in : x) {
      Row out = bias == numbers_.end() ? Row(outputs) : bias->second;
      for (size_t o = 0; o < outputs; ++o) {
        for (size_t i = 0; i < inputs; ++i) out[o] += weight[o * inputs + i] * in[i];
      }
      y.push_back(out);
    }
    return y;
  }

  // Groups of as many features as the weight has, or parts with weights of their own.
  Rows norm(const nn::NormOptions& options, const std::string& name, Rows x) const {
    const auto parts = static_cast<size_t>(options.parts);
    for (Row& row : x) {
      const auto width = static_cast<size_t>(options.features);
      for (size_t begin = 0; begin < row.size(); begin += width) {
        const std::string own = parts > 1 ? concat(name, ".", begin / width) : name;
        const Row weight = options.weight ? numbers_.at(own + ".weight") : Row(width, 1.0);
        double mean = 0, square = 0;
        for (size_t i = 0; i < width; ++i) mean += row[begin + i] / static_cast<double>(width);
        if (options.kind == nn::NormKind::rms) mean = 0;
        for (size_t i = 0; i < width; ++i)
          square += (row[begin + i] - mean) * (row[begin + i] - mean) / static_cast<double>(width);
        for (size_t i = 0; i < width; ++i) {
          row[begin + i] = (row[begin + i] - mean) / std::sqrt(square + double{options.epsilon}) * weight[i];
          if (options.kind == nn::NormKind::layer && options.bias)
            row[begin + i] += numbers_.at(name + ".bias")[i];
        }
      }
    }
    return x;
  }

  static void rotate(const nn::PositionOptions& positions, size_t d, Rows& x, double growth) {
    if (positions.kind != nn::PositionKind::rotary) return;
    const size_t width = positions.rotary_features > 0 ? static_cast<size_t>(positions.rotary_features) : d;
    const auto first = static_cast<double>(positions.rotary_scaling.first_positions);
    for (size_t place = 0; place < x.size(); ++place) {
      if (growth != 0) {
        for (double& feature : x[place])
          feature *= 1 + growth * std::log(1 + std::floor(static_cast<double>(place) / first));
      }
      for (size_t head = 0; head < x[place].size(); head += d) {
        for (size_t i = 0; i < width / 2; ++i) {
          if (positions.rotary_angles > 0 && i >= static_cast<size_t>(positions.rotary_angles)) continue;
          const double angle =
              static_cast<double>(place) * (positions.rotary_backwards ? -1 : 1) *
              std::pow(positions.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
          double &a = x[place][head + i], &b = x[place][head + width / 2 + i];
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = b * std::cos(angle) + a * std::sin(angle);
          a = turned;
        }
      }
    }
  }

  // Each head's features: `part` of the first rows, then those of the second.
  static Rows in_front(const Rows& first, const Rows& second, size_t part, int64_t heads) {
    Rows both(first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      const size_t rest = second[i].size() / static_cast<size_t>(heads);
      for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
        for (size_t c = 0; c < part; ++c) both[i].push_back(first[i][h * part + c]);
        for (size_t c = 0; c < rest; ++c) both[i].push_back(second[i][h * rest + c]);
      }
    }
    return both;
  }

  Rows attention(const nn::MultiheadAttentionOptions& given, const std::string& name, const Rows& x,
                 const Rows& memory, bool causal) const {
    const nn::MultiheadAttentionOptions o = nn::completed(given);
    const nn::AttentionVariant& variant = o.variant;
    const bool latent = variant.latent.rank > 0;
    const nn::NormOptions latent_norm{
        .features = variant.latent.rank, .kind = nn::NormKind::rms, .epsilon = 1e-6f};
    nn::NormOptions query_norm = latent_norm;
    query_norm.features = variant.latent.query_rank;
    const Rows reads = variant.latent.query_rank > 0
                           ? norm(query_norm, name + "q_a_norm", linear(name + "q_a_proj", x))
                           : x,
               written = latent ? norm(latent_norm, name + "kv_a_norm", linear(name + "kv_a_proj", memory))
                                : memory;
    Rows q = linear(name + "q_proj", reads), k = linear(name + "k_proj", written),
         v = variant.keys_as_values ? k : linear(name + "v_proj", written);
    if (latent) {
      const auto part = static_cast<size_t>(variant.positions.rotary_features);
      q = in_front(linear(name + "q_rope_proj", reads), q, part, o.heads);
      Rows shared = linear(name + "k_rope_proj", memory);
      for (Row& row : shared) {
        const Row one = row;
        for (int64_t h = 1; h < o.heads; ++h) row.insert(row.end(), one.begin(), one.end());
      }
      k = in_front(shared, k, part, o.heads);
    }
    for (Rows* rows : {&q, &k, &v}) {
      for (Row& row : *rows) {
        for (double& one : row) {
          if (variant.clip > 0) one = std::clamp(one, -double{variant.clip}, double{variant.clip});
          if (rows == &v) one *= double{variant.value_scale};
        }
      }
    }
    const auto d_k = static_cast<size_t>(o.d_k), d_v = static_cast<size_t>(o.d_v);
    const auto rotated = [&] {
      rotate(variant.positions, d_k, q, variant.positions.rotary_scaling.query_growth);
      rotate(variant.positions, d_k, k, 0);
    };
    if (variant.query_key_norm == nn::QueryKeyNorm::rotated_head) rotated();
    if (variant.query_key_norm != nn::QueryKeyNorm::none) {
      const bool each = variant.query_key_norm == nn::QueryKeyNorm::each_head;
      const auto normed = [&](const std::string& of, int64_t heads, const Rows& rows) {
        const bool all = variant.query_key_norm == nn::QueryKeyNorm::all_heads;
        return norm({.features = all ? o.d_k * heads : o.d_k,
                     .kind = o.norm_kind,
                     .epsilon = o.epsilon,
                     .bias = !each,
                     .weight = o.norm_weight && variant.query_key_norm != nn::QueryKeyNorm::plain_head,
                     .parts = each ? heads : 1},
                    name + of, rows);
      };
      q = normed("q_norm", o.heads, q);
      k = normed("k_norm", o.key_heads, k);
    }
    if (variant.value_norm)
      v = norm({.features = o.d_v, .kind = nn::NormKind::rms, .epsilon = o.epsilon, .weight = false}, "", v);
    if (variant.query_key_norm != nn::QueryKeyNorm::rotated_head) rotated();
    Rows heads(x.size(), Row(static_cast<size_t>(o.heads) * d_v));
    for (size_t h = 0; h < static_cast<size_t>(o.heads); ++h) {
      const size_t key_head = h / static_cast<size_t>(o.heads / o.key_heads);
      for (size_t i = 0; i < q.size(); ++i) {
        Row weights(k.size());
        double sum = variant.sinks ? std::exp(numbers_.at(name + "sinks")[h]) : 0;
        for (size_t j = 0; j < k.size(); ++j) {
          const auto away = static_cast<int64_t>(j) - static_cast<int64_t>(i);
          if ((causal && away > 0) || (variant.window > 0 && std::abs(away) >= variant.window)) continue;
          double score = 0;
          for (size_t c = 0; c < d_k; ++c) score += q[i][h * d_k + c] * k[j][key_head * d_k + c];
          score *= double{*variant.scale};
          if (variant.softcap > 0)
            score = double{variant.softcap} * std::tanh(score / double{variant.softcap});
          sum += weights[j] = std::exp(score);
        }
        for (size_t j = 0; j < k.size(); ++j) {
          for (size_t c = 0; c < d_v; ++c)
            heads[i][h * d_v + c] += weights[j] / sum * v[j][key_head * d_v + c];
        }
      }
    }
    return linear(name + "out_proj", heads);
  }

  Rows feed_forward(const nn::LayerOptions& options, const std::string& name, const Rows& x) const {
    Rows inner = linear(name + "fc1", x);
    const Rows gate = options.gated ? linear(name + "gate", x) : inner;
    for (size_t i = 0; i < inner.size(); ++i) {
      for (size_t c = 0; c < inner[i].size(); ++c) {
        const double silu = gate[i][c] / (1 + std::exp(-gate[i][c]));
        const double positive = std::max(inner[i][c], 0.0);
        inner[i][c] = options.gated                                    ? silu * inner[i][c]
                      : options.xielu                                  ? xielu(name, inner[i][c])
                      : options.activation == Activation::relu_squared ? positive * positive
                                                                       : silu;
      }
    }
    return linear(name + "fc2", inner);
  }

  double xielu(const std::string& name, double x) const {
    const auto softplus = [&](const char* of) { return std::log1p(std::exp(numbers_.at(name + of)[0])); };
    const double curved =
        x > 0 ? softplus("xielu.alpha_p") * x * x : (softplus("xielu.alpha_n") + 0.5) * (std::expm1(x) - x);
    return curved + 0.5 * x;
  }

  Rows added(const nn::LayerOptions& options, const std::string& name, const Rows& x, Rows sublayer) const {
    using Placement = nn::NormPlacement;
    const bool of_result = options.feed_forward_output_norm && name.ends_with("final");
    if (options.norm == Placement::output || options.norm == Placement::both || of_result)
      sublayer = norm(options.norm_options(), name + "_output_norm", sublayer);
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t c = 0; c < x[i].size(); ++c)
        sublayer[i][c] = x[i][c] + double{options.residual_scale} * sublayer[i][c];
    }
    return options.norm == Placement::post ? norm(options.norm_options(), name + "_layer_norm", sublayer)
                                           : sublayer;
  }
  Rows input(const nn::LayerOptions& options, const std::string& name, const Rows& x) const {
    const bool first = options.norm == nn::NormPlacement::pre || options.norm == nn::NormPlacement::both;
    if (!options.attention_norm && name.ends_with("self_attn")) return x;
    return first ? norm(options.norm_options(), name + "_layer_norm", x) : x;
  }

  Rows layer(const nn::LayerOptions& options, const std::string& name, const Rows& x, bool causal,
             const Rows& memory) const {
    const std::string self = name + "self_attn", cross = name + "encoder_attn", last = name + "final";
    const Rows in = input(options, self, x);
    Rows y = added(options, self, x, attention(options.self_attention(), self + ".", in, in, causal));
    if (options.order == nn::SublayerOrder::parallel)
      return added(options, last, y, feed_forward(options, name, input(options, last, x)));
    if (options.order == nn::SublayerOrder::parallel_one_norm)
      return added(options, self, y, feed_forward(options, name, in));
    if (options.reads_memory) {
      y = added(options, cross, y,
                attention(options.cross_attention(), cross + ".", input(options, cross, y), memory, false));
    }
    y = added(options, last, y, feed_forward(options, name, input(options, last, y)));
    for (Row& row : y) {
      for (double& one : row) one *= options.layer_scalar ? numbers_.at(name + "layer_scalar")[0] : 1;
    }
    return y;
  }

  std::map<std::string, Row> numbers_;
};

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

#pragma once
// The formulas of a stack's layers in double precision.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "qkv/nn/decoder.h"

namespace qkv::testing {

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
      for (size_t c = 0; c < x[i].size(); ++c) {
        const double scale = options.layer_scale ? numbers_.at(name + "_layer_scale")[c] : 1;
        sublayer[i][c] = x[i][c] + double{options.residual_scale} * scale * sublayer[i][c];
      }
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

}  // namespace qkv::testing

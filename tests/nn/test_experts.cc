// Mixtures of experts against the formulas in double precision: outputs, gradients, the balancing loss.

#include "qkv/nn/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/nn/decoder.h"
#include "qkv/ops/general/router.h"
#include "tests/support/devices.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

using Row = std::vector<double>;
using Rows = std::vector<Row>;

constexpr int64_t kMixtureWidth = 10;

struct Mixture {
  nn::DenseFeedForwardOptions expert;
  nn::ExpertOptions options;
};

// Each option acts in one of these.
std::vector<Mixture> mixtures() {
  const nn::DenseFeedForwardOptions plain{
      .d_model = kMixtureWidth, .d_ff = 7, .activation = Activation::silu, .gated = true, .bias = false};
  nn::DenseFeedForwardOptions clamped = plain, ungated = plain;
  clamped.clamp = {.limit = 0.6f, .alpha = 1.3f};
  clamped.bias = true;
  ungated.gated = false;
  return {{plain, {.count = 5, .per_token = 2}},
          {plain, {.count = 5, .per_token = 3, .normalise = false, .shared_d_ff = 4, .shared_gate = true}},
          {clamped, {.count = 4, .per_token = 2, .router_bias = true}},
          {plain, {.count = 6, .per_token = 2, .sparse_mixer = 0.6f}},
          {plain, {.count = 6, .per_token = 2, .correction_bias = true, .shared_d_ff = 4}},
          {plain,
           {.count = 6,
            .per_token = 3,
            .sigmoid = true,
            .scale = 2.5f,
            .groups = 3,
            .group_choices = 2,
            .correction_bias = true}},
          {plain,
           {.count = 8,
            .per_token = 2,
            .normalise = false,
            .scale = 0.5f,
            .groups = 4,
            .group_choices = 2,
            .group_scores = 1}},
          {plain, {.count = 4, .per_token = 2, .normalise = false, .sigmoid = true}},
          {plain,
           {.count = 6,
            .per_token = 2,
            .normalise = false,
            .sigmoid = true,
            .correction_bias = true,
            .corrects_logits = true,
            .shared_d_ff = 4,
            .shared_mean = true}},
          {clamped, {.count = 4, .per_token = 2, .normalise = false, .sigmoid = true, .weighs_inputs = true}},
          {ungated, {.count = 3, .per_token = 1, .normalise = false, .shared_d_ff = 9}}};
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The parameters in double precision, and the formulas.
class MixtureFormulas {
 public:
  MixtureFormulas(const nn::Experts& experts, Mixture mixture) : mixture_(std::move(mixture)) {
    experts.visit([&](const std::string& name, const nn::Parameter& parameter) {
      const auto values = parameter.variable.value().values();
      numbers_[name] = Row(values.begin(), values.end());
    });
  }
  std::map<std::string, Row>& numbers() { return numbers_; }

  Row logits(const Row& x) const { return linear("router", x); }
  std::vector<size_t> chosen(const Row& x) const {
    const nn::ExpertOptions& options = mixture_.options;
    Row z = options.corrects_logits ? logits(x) : probabilities(x);
    if (options.correction_bias) {
      const Row& correction = numbers_.at("correction.e_score_correction_bias");
      for (size_t e = 0; e < z.size(); ++e) z[e] += correction[e];
    }
    const auto groups = static_cast<size_t>(options.groups), width = z.size() / groups;
    std::vector<std::pair<double, size_t>> scores;
    for (size_t g = 0; g < groups; ++g) {
      Row own(z.begin() + static_cast<std::ptrdiff_t>(g * width),
              z.begin() + static_cast<std::ptrdiff_t>((g + 1) * width));
      std::ranges::sort(own, std::greater<>());
      double score = 0;
      for (size_t i = 0; groups > 1 && i < static_cast<size_t>(options.group_scores); ++i) score += own[i];
      scores.emplace_back(-score, g);
    }
    std::ranges::sort(scores);
    for (size_t left = static_cast<size_t>(options.group_choices); left < groups; ++left) {
      for (size_t i = 0; i < width; ++i) z[scores[left].second * width + i] = -1e30;
    }
    std::vector<size_t> order(z.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return z[a] > z[b]; });
    order.resize(static_cast<size_t>(mixture_.options.per_token));
    return order;
  }

  Row probabilities(const Row& x) const {
    Row z = logits(x);
    double sum = 0;
    for (const double one : z) sum += std::exp(one);
    for (double& one : z) one = mixture_.options.sigmoid ? exact_sigmoid(one) : std::exp(one) / sum;
    return z;
  }

  Row operator()(const Row& x) const {
    const Row z = logits(x), p = probabilities(x);
    const std::vector<size_t> experts = chosen(x);
    double sum = mixture_.options.normalise ? 0 : 1;
    for (const size_t e : experts) sum += mixture_.options.normalise ? p[e] : 0;
    Row y(x.size());
    // The sum over the experts that compete with the expert of this rank (Liu et al. 2023).
    const auto competing = [&](size_t rank) {
      double all = 0;
      for (size_t e = 0; e < z.size(); ++e) {
        const double most = z[experts[rank]], below = (most - z[e]) / std::max(std::abs(z[e]), most);
        if (below <= 2 * double{mixture_.options.sparse_mixer} && (rank == 0 || e != experts[0]))
          all += std::exp(z[e]);
      }
      return all;
    };
    const nn::ExpertOptions& options = mixture_.options;
    const auto add = [&](double weight, const std::string& name) {
      Row read = x;
      for (double& one : read) one *= options.weighs_inputs ? weight : 1;
      const Row own = feed_forward(name, read);
      for (size_t i = 0; i < y.size(); ++i) y[i] += (options.weighs_inputs ? 1 : weight) * own[i];
    };
    for (size_t rank = 0; rank < experts.size(); ++rank) {
      const size_t e = experts[rank];
      add(mixture_.options.sparse_mixer > 0 ? std::exp(z[e]) / competing(rank)
                                            : double{mixture_.options.scale} * p[e] / sum,
          concat("experts.", e));
    }
    if (options.shared_d_ff > 0)
      add(options.shared_gate ? exact_sigmoid(linear("shared_gate", x)[0]) : 1, "shared_expert");
    for (double& one : y) one *= options.shared_mean ? 0.5 : 1;
    return y;
  }

  // E sum_e f_e P_e
  double balance(const Rows& rows) const {
    const auto n = static_cast<size_t>(mixture_.options.count);
    Row times(n), probability(n);
    for (const Row& x : rows) {
      for (const size_t e : chosen(x)) ++times[e];
      const Row z = logits(x);
      double sum = 0;
      for (const double one : z) sum += std::exp(one);
      for (size_t e = 0; e < n; ++e) probability[e] += std::exp(z[e]) / sum;
    }
    double loss = 0;
    const auto count = static_cast<double>(rows.size());
    for (size_t e = 0; e < n; ++e) loss += times[e] / count * probability[e] / count;
    return static_cast<double>(n) * loss;
  }

 private:
  Row linear(const std::string& name, const Row& x) const {
    const Row& weight = numbers_.at(name + ".weight");
    const auto bias = numbers_.find(name + ".bias");
    Row y = bias == numbers_.end() ? Row(weight.size() / x.size()) : bias->second;
    for (size_t o = 0; o < y.size(); ++o) {
      for (size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
    }
    return y;
  }

  Row feed_forward(const std::string& name, const Row& x) const {
    const nn::DenseFeedForwardOptions& expert = mixture_.expert;
    Row inner = linear(name + ".fc1", x);
    const Row gate = expert.gated ? linear(name + ".gate", x) : inner;
    const double limit = double{expert.clamp.limit}, alpha = double{expert.clamp.alpha};
    for (size_t i = 0; i < inner.size(); ++i) {
      if (limit > 0) {
        const double g = std::min(gate[i], limit), up = std::clamp(inner[i], -limit, limit);
        inner[i] = (up + 1) * g * exact_sigmoid(alpha * g);
      } else {
        inner[i] = gate[i] * exact_sigmoid(gate[i]) * (expert.gated ? inner[i] : 1);
      }
    }
    return linear(name + ".fc2", inner);
  }

  Mixture mixture_;
  std::map<std::string, Row> numbers_;
};

// With random values for the biases too.
nn::Experts made_experts(const Mixture& mixture) {
  nn::Experts experts(mixture.expert, mixture.options);
  uint64_t seed = 40;
  experts.visit([&](const std::string&, const nn::Parameter& parameter) {
    parameter.set_value({random_tensor(parameter.shape, ++seed)});
  });
  return experts;
}

Rows matrix_rows(const Tensor& x) {
  Rows rows;
  for (int64_t r = 0; r < x.rows(); ++r)
    rows.emplace_back(x.data() + r * x.cols(), x.data() + (r + 1) * x.cols());
  return rows;
}

TEST(Experts, AgreeWithTheFormulas) {
  for (const Mixture& mixture : mixtures()) {
    const nn::Experts experts = made_experts(mixture);
    const MixtureFormulas formulas(experts, mixture);
    for_each_device([&](Device device) {
      nn::move_to(experts, device);
      for (const int64_t tokens : {1, 2, 30}) {
        const Tensor x = random_tensor({tokens, kMixtureWidth}, 1);
        for (const bool training : {false, true}) {
          nn::ForwardContext context{.training = training};
          const Tensor y = to_host(experts(from_host(x, device), context).value());
          for (int64_t t = 0; t < tokens; ++t) {
            const Row expected = formulas(matrix_rows(x)[static_cast<size_t>(t)]);
            for (int64_t c = 0; c < kMixtureWidth; ++c) {
              ASSERT_NEAR(y.data()[t * kMixtureWidth + c], expected[static_cast<size_t>(c)], 1e-5)
                  << t << ", " << c << " of " << tokens;
            }
          }
        }
      }
    });
    nn::move_to(experts, Device::cpu);
  }
}

// Along random directions, in all parameters and the input, with the balancing loss of the router.
TEST(Experts, HaveTheGradientsOfTheFormulas) {
  constexpr double kFactor = 0.7;
  for (const Mixture& mixture : mixtures()) {
    const nn::Experts experts = made_experts(mixture);
    MixtureFormulas formulas(experts, mixture);
    const Tensor values = random_tensor({12, kMixtureWidth}, 1),
                 weights = random_tensor({12, kMixtureWidth}, 2);
    Variable x = Variable::parameter(values);
    const auto balance = std::make_shared<RouterBalance>(kFactor);
    nn::ForwardContext context{.training = true, .balance = balance};
    {
      Tape tape;
      tape.backward(experts(x, context), weights.clone());
    }
    Rows rows = matrix_rows(values);
    const auto objective = [&] {
      double sum = kFactor * formulas.balance(rows);
      for (size_t t = 0; t < rows.size(); ++t) {
        const Row y = formulas(rows[t]);
        for (size_t c = 0; c < y.size(); ++c) sum += y[c] * double{weights.data()[t * kMixtureWidth + c]};
      }
      return sum;
    };
    EXPECT_NEAR(balance->loss(), formulas.balance(rows), 1e-6);
    uint64_t seed = 500;
    const auto check = [&](const std::string& name, const Tensor& gradient, const auto& move) {
      const Tensor direction = random_tensor(gradient.shape(), ++seed);
      move(direction, 1e-6);
      const double after = objective();
      move(direction, -2e-6);
      const double before = objective();
      move(direction, 1e-6);
      double along = 0, square = 0;
      for (int64_t i = 0; i < gradient.numel(); ++i) {
        along += double{gradient.data()[i]} * double{direction.data()[i]};
        square += double{gradient.data()[i]} * double{gradient.data()[i]};
      }
      EXPECT_NEAR(along, (after - before) / 2e-6, 1e-4 * (std::sqrt(square) + 1)) << name;
      return square;
    };
    double router = 0;
    experts.visit([&](const std::string& name, const nn::Parameter& parameter) {
      if (name == "correction.e_score_correction_bias") {
        EXPECT_FALSE(parameter.variable.has_grad()) << "it decides the choice alone";
        return;
      }
      ASSERT_TRUE(parameter.variable.has_grad()) << name;  // of zeros for an expert without tokens
      Row& numbers = formulas.numbers().at(name);
      const double square = check(name, parameter.variable.grad(), [&](const Tensor& direction, double step) {
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += step * double{direction.data()[i]};
      });
      if (name == "router.weight") router = square;
    });
    EXPECT_GT(router, 1e-3);
    check("x", x.grad(), [&](const Tensor& direction, double step) {
      for (size_t i = 0; i < rows.size() * kMixtureWidth; ++i)
        rows[i / kMixtureWidth][i % kMixtureWidth] += step * double{direction.data()[i]};
    });
  }
}

TEST(Experts, GiveATokenTheSameBitsInAnyBatchAndForAnyThreads) {
  const int before = threads();
  std::vector<Mixture> all = mixtures();
  all.push_back({{.d_model = kMixtureWidth, .d_ff = 7, .xielu = true}, {.count = 5, .per_token = 2}});
  for (const Mixture& mixture : all) {
    const nn::Experts experts = made_experts(mixture);
    const Tensor x = random_tensor({300, kMixtureWidth}, 1);
    nn::ForwardContext context;
    set_threads(1);
    const Tensor together = experts(x, context).value();
    for (const int count : {1, 3}) {
      set_threads(count);
      for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 300}, {7, 1}, {100, 23}}) {
        EXPECT_TRUE(std::ranges::equal(experts(x.slice_rows(first, rows), context).value().values(),
                                       together.slice_rows(first, rows).values()))
            << first << " of " << rows;
      }
    }
  }
  set_threads(before);
}

// Experts in some layers, with the dropout sites of all, and layers that are run again in the backward pass.
TEST(Experts, TrainWithTheSameBitsIfLayersAreRecomputed) {
  nn::LayerOptions layer{.d_model = 12,
                         .heads = 2,
                         .d_ff = 6,
                         .activation = Activation::silu,
                         .gated = true,
                         .experts = {.count = 7, .per_token = 2},
                         .norm = nn::NormPlacement::pre,
                         .reads_memory = false,
                         .dropout = 0.2f,
                         .activation_dropout = 0.3f};
  nn::StackOptions options{.layers = nn::alike(3, layer), .final_norm = true};
  options.layers[1].experts = {};
  const nn::Decoder decoder(options);
  nn::initialise(decoder, 5);
  const Tensor x = random_tensor({5, 12}, 1), weights = random_tensor({5, 12}, 2);  // fewer than experts
  const auto run = [&](bool recompute) {
    const auto balance = std::make_shared<RouterBalance>(0.5);
    nn::ForwardContext context{.training = true, .seed = 3, .recompute = recompute, .balance = balance};
    Tape tape;
    tape.backward(decoder(x, Offsets::uniform(1, 5), {.offsets = Offsets::uniform(1, 0)}, context),
                  weights.clone());
    std::map<std::string, Tensor> all{{"loss", Tensor::full({1}, static_cast<float>(balance->loss()))}};
    decoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
      all[name] = parameter.variable.grad().clone();
      parameter.variable.clear_grad();
    });
    return all;
  };
  const auto kept = run(false), again = run(true);
  for (const auto& [name, gradient] : kept)
    EXPECT_TRUE(std::ranges::equal(gradient.values(), again.at(name).values())) << name;
  EXPECT_GT(kept.at("loss").item(), 1);
}

TEST(Experts, AreRefusedByNameWhereTheyCannotBe) {
  const nn::DenseFeedForwardOptions expert = mixtures()[0].expert;
  expect_throw<UsageError>("experts: expected 0 to", [&] { nn::Experts(expert, {.count = -1}); });
  expect_throw<UsageError>("at least 1", [&] { nn::Experts(expert, {}); });
  expect_throw<UsageError>("experts_per_token", [&] { nn::Experts(expert, {.count = 3, .per_token = 4}); });
  expect_throw<UsageError>("experts_per_token", [&] { nn::Experts(expert, {.count = 3, .per_token = 0}); });
  expect_throw<UsageError>("shared_d_ff", [&] { nn::Experts(expert, {.count = 3, .shared_d_ff = -1}); });
  expect_throw<UsageError>("clamp",
                           [&] { nn::DenseFeedForward({.d_model = 4, .d_ff = 4, .clamp = {.limit = 1}}); });
}

}  // namespace

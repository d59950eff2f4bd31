#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "qkv/base/parallel.h"
#include "qkv/kernels/reference/attention/attention.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

// Values and output gradients are below 1, so errors are relative to the largest possible value.
constexpr double kForwardError = 2e-6, kBackwardError = 5e-6;

double difference(const std::vector<float>& found, const std::vector<double>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (static_cast<double>(found[i]) == expected[i]) continue;  // infinities
    const double d = std::abs(static_cast<double>(found[i]) - expected[i]);
    largest = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(largest, d);
  }
  return largest;
}

double magnitude(const std::vector<double>& values) {
  double largest = 1;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

std::string name(const AttentionOptions& o) {
  std::ostringstream text;
  text << "queries";
  for (const int q : o.queries) text << ' ' << q;
  text << ", keys";
  for (const int k : o.keys) text << ' ' << k;
  text << ", heads " << o.heads << ", d_k " << o.d_k << ", d_v " << o.d_v << ", causal " << o.causal
       << ", keep " << static_cast<int>(o.keep) << ", bias " << static_cast<int>(o.bias) << ", dropout "
       << o.dropout << ", size " << o.size << ", key heads " << o.key_heads << ", alibi " << o.alibi
       << ", relative " << o.relative << ", softcap " << o.softcap << ", window " << o.window << ", sinks "
       << o.sinks << ", aligned to the " << (o.alignment == Alignment::last_key ? "last key" : "first key");
  return text.str();
}

// The gradient of a bias: the initial 0.25 plus the gradients of the scores that each element is added to.
// index(s, h, i, j): the element added to the score of key j for query i.
template <class Index>
std::vector<double> bias_gradient(const AttentionCase& problem, const std::vector<double>& scores,
                                  size_t elements, const Index& index) {
  std::vector<double> sum(elements, 0.25);
  const auto& o = problem.options();
  size_t at = 0;
  for (size_t s = 0; s < o.queries.size(); ++s) {
    for (int64_t h = 0; h < o.heads; ++h) {
      for (int64_t i = 0; i < o.queries[s]; ++i) {
        for (int64_t j = 0; j < o.keys[s]; ++j) sum[static_cast<size_t>(index(s, h, i, j))] += scores[at++];
      }
    }
  }
  return sum;
}

// Compares forward and backward with the reference. factor widens the bounds for large scores: a float of 1e4
// has an error of 5e-4, which becomes the relative error of its exponential.
void check(const AttentionOptions& options, double factor = 1) {
  SCOPED_TRACE(name(options));
  const AttentionCase problem(options);
  const auto expected = reference::attention_forward(problem.shape, problem.input);
  const auto found = problem.forward(true);
  const auto without_weights = problem.forward(false);
  ASSERT_EQ(found.output.memory, without_weights.output.memory);
  const double output_error = difference(found.output.values(), expected.output);
  const double weight_error = difference(found.weights, expected.weights);
  ASSERT_LT(output_error, kForwardError * factor);
  ASSERT_LT(weight_error, kForwardError * factor);
  const double log_scale = [&] {
    double scale = 1;
    for (const double l : expected.log_sum_exp) scale = std::isinf(l) ? scale : std::max(scale, std::abs(l));
    return scale;
  }();
  ASSERT_LT(difference(found.log_sum_exp, expected.log_sum_exp), kForwardError * log_scale);
  ASSERT_TRUE(found.output.spare_untouched());

  const auto slope = reference::attention_backward(problem.shape, problem.input, problem.grad_output.data(),
                                                   problem.grad_output.stride);
  const auto gradients = problem.backward(found);
  const auto compare = [&](const Rows& rows, const std::vector<double>& wanted, const char* what) {
    const double error = difference(rows.values(), wanted) / magnitude(wanted);
    EXPECT_LT(error, kBackwardError * factor) << what;
    EXPECT_TRUE(rows.spare_untouched()) << what;
  };
  compare(gradients.query, slope.query, "query");
  compare(gradients.key, slope.key, "key");
  compare(gradients.value, slope.value, "value");
  const auto compare_bias = [&](const std::vector<float>& gradient, const auto& index) {
    const auto wanted = bias_gradient(problem, slope.scores, gradient.size(), index);
    EXPECT_LT(difference(gradient, wanted) / magnitude(wanted), kBackwardError * factor);
  };
  const ScoreBias& bias = problem.shape.bias;
  if (options.bias != Mask::none) {
    compare_bias(gradients.bias, [&](size_t s, int64_t h, int64_t i, int64_t j) {
      return static_cast<int64_t>(s) * bias.batch_stride + h * bias.head_stride + i * bias.query_stride + j;
    });
  }
  if (options.sinks) {
    std::vector<double> wanted = slope.sinks;
    for (double& gradient : wanted) gradient += 0.25;
    EXPECT_LT(difference(gradients.sinks, wanted) / magnitude(wanted), kBackwardError * factor) << "sinks";
  }
  const RelativeBias& relative = problem.shape.relative;
  if (options.relative) {
    compare_bias(gradients.relative, [&](size_t s, int64_t h, int64_t i, int64_t j) {
      const int64_t shift =
          options.alignment == Alignment::last_key ? options.keys[s] - options.queries[s] : 0;
      return h * relative.head_stride + relative.zero + j - (i + shift);
    });
  }
}

TEST(Attention, EveryLengthAroundTheTiles) {
  uint64_t seed = 1;
  for (int n = 1; n <= 130; ++n) {
    for (const bool causal : {false, true}) {
      for (const auto& [queries, keys] : {std::pair{n, n}, {n, (n * 7) % 67 + 1}, {(n * 5) % 61 + 1, n}}) {
        check({.queries = {queries},
               .keys = {keys},
               .heads = 1,
               .d_k = 8,
               .d_v = 5,
               .causal = causal,
               .dropout = n % 3 == 0 && queries == keys ? 0.2f : 0.0f,
               .seed = ++seed});
      }
    }
  }
}

TEST(Attention, WindowsAndSinks) {
  uint64_t seed = 700;
  for (const bool causal : {false, true}) {
    for (const int64_t window : {0, 1, 2, 31, 63, 64, 65, 100, 500}) {
      for (const auto& [queries, keys] :
           {std::pair{1, 1}, {3, 90}, {70, 70}, {131, 129}, {40, 200}, {200, 40}}) {
        check({.queries = {queries, 5},
               .keys = {keys, 0},
               .heads = 4,
               .d_k = 8,
               .d_v = 5,
               .key_heads = 2,
               .causal = causal,
               .alignment = seed % 2 == 0 ? Alignment::last_key : Alignment::first_key,
               .window = window,
               .sinks = seed % 3 != 0,
               .keep = window == 2 ? Mask::full : Mask::none,
               .dropout = window == 31 ? 0.2f : 0.0f,
               .empty_row = true,
               .seed = ++seed});
      }
    }
  }
}

TEST(Attention, EveryWidth) {
  for_each_target([] {
    const int widths[] = {1, 3, 8, 16, 24, 32, 40, 64, 80, 96, 128, 160, 256};
    for (size_t i = 0; i < std::size(widths); ++i) {
      const int d_k = widths[i], d_v = widths[(i + 5) % std::size(widths)];
      check({.queries = {37}, .keys = {41}, .heads = 2, .d_k = d_k, .d_v = d_v, .spare = 3, .seed = i});
      check({.queries = {9, 50},
             .keys = {9, 50},
             .heads = 1,
             .d_k = d_k,
             .d_v = d_v,
             .causal = true,
             .seed = i});
    }
  });
}

TEST(Attention, SeveralBlocksOfKeysAndQueries) {
  check({.queries = {400}, .keys = {530}, .heads = 1, .d_k = 64, .d_v = 80});
  check({.queries = {530}, .keys = {530}, .heads = 1, .d_k = 80, .d_v = 64, .causal = true, .dropout = 0.1f});
}

TEST(Attention, MasksAndBiases) {
  for_each_target([] {
    uint64_t seed = 100;
    for (const Mask keep : {Mask::none, Mask::rows, Mask::full}) {
      for (const Mask bias : {Mask::none, Mask::rows, Mask::full}) {
        for (const bool causal : {false, true}) {
          for (const float dropout : {0.0f, 0.25f}) {
            check({.queries = {1, 37, 0, 70, 5},
                   .keys = {3, 37, 4, 50, 0},
                   .heads = 2,
                   .d_k = 10,
                   .d_v = 6,
                   .causal = causal,
                   .keep = keep,
                   .bias = bias,
                   .dropout = dropout,
                   .spare = 5,
                   .empty_row = keep == Mask::full,
                   .seed = ++seed});
          }
        }
      }
    }
  });
}

TEST(Attention, GroupedHeadsAndDistances) {
  for_each_target([] {
    uint64_t seed = 500;
    for (const int64_t key_heads : {1, 2, 3}) {
      for (const bool causal : {false, true}) {
        for (const Mask mask : {Mask::none, Mask::full}) {
          check({.queries = {1, 37, 0, 70, 3},
                 .keys = {30, 37, 4, 50, 100},
                 .heads = 6,
                 .d_k = 80,
                 .d_v = 24,
                 .key_heads = key_heads,
                 .alibi = key_heads != 2,
                 .relative = key_heads != 1,
                 .causal = causal,
                 .keep = mask,
                 .bias = mask,
                 .dropout = causal ? 0.2f : 0.0f,
                 .spare = 5,
                 .seed = ++seed});
        }
      }
    }
  });
}

// Caps below and far above the scores, and few queries, which use another code path.
TEST(Attention, SoftcapAndAlignment) {
  for_each_target([] {
    uint64_t seed = 700;
    for (const float softcap : {0.0f, 0.5f, 3.0f, 50.0f}) {
      for (const Alignment alignment : {Alignment::last_key, Alignment::first_key}) {
        for (const bool causal : {false, true}) {
          check({.queries = {1, 37, 3, 70, 90, 4},
                 .keys = {30, 37, 4, 50, 140, 2},
                 .heads = 2,
                 .d_k = 20,
                 .d_v = 12,
                 .alibi = true,
                 .relative = true,
                 .causal = causal,
                 .alignment = alignment,
                 .softcap = softcap,
                 .keep = causal ? Mask::none : Mask::full,
                 .bias = Mask::full,
                 .dropout = causal ? 0.2f : 0.0f,
                 .size = 2,
                 .spare = 5,
                 .seed = ++seed},
                2);  // scores of up to 50
        }
      }
    }
    check({.queries = {530}, .keys = {300}, .heads = 1, .causal = true, .alignment = Alignment::first_key});
    check({.queries = {300}, .keys = {530}, .heads = 1, .causal = true, .alignment = Alignment::first_key});
  });
}

// One head and thousands of keys: the backward pass is split by keys.
TEST(Attention, SplitsLongSequencesByKeys) {
  const int before = threads();
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.queries = {300, 20},
                                   .keys = {3100, 30},
                                   .heads = 2,
                                   .d_k = 16,
                                   .d_v = 8,
                                   .key_heads = 1,
                                   .relative = true,
                                   .causal = causal};
    check(options);
    const AttentionCase problem(options);
    const auto forward = problem.forward();
    set_threads(1);
    const auto one = problem.backward(forward), added = problem.backward(forward, Accumulate::yes, 2.0f);
    const auto x = one.query.values(), y = added.query.values();
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i] + 2.0f, y[i], 2e-6f);
    for (const int count : {2, 3, 4}) {
      set_threads(count);
      const auto slope = problem.backward(forward);
      EXPECT_EQ(one.query.memory, slope.query.memory);
      EXPECT_EQ(one.key.memory, slope.key.memory);
      EXPECT_EQ(one.value.memory, slope.value.memory);
      EXPECT_EQ(one.relative, slope.relative);
    }
    set_threads(before);
    AttentionCase alone({.queries = {300},
                         .keys = {3100},
                         .heads = 2,
                         .d_k = 16,
                         .d_v = 8,
                         .key_heads = 1,
                         .relative = true,
                         .causal = causal,
                         .seed = 2});
    take_rows(problem, 0, 0, alone);
    alone.shape.relative = problem.shape.relative;
    const auto slope = alone.backward(alone.forward());
    EXPECT_EQ(slope.query.values(), some_rows(one.query, 0, 300));
    EXPECT_EQ(slope.key.values(), some_rows(one.key, 0, 3100));
  }
}

TEST(Attention, HugeAndTinyScores) {
  for (const bool causal : {false, true}) {
    // Scores of up to 1e4 and 1e5 with the larger sizes.
    for (const auto& [size, factor] : {std::pair{1e-6f, 1.0}, {60.0f, 1e3}, {200.0f, 1e4}}) {
      check({.queries = {40}, .keys = {60}, .d_k = 16, .causal = causal, .size = size}, factor);
    }
  }
}

TEST(Attention, FullyMaskedRowsAreZero) {
  // Causal with three more queries than keys: the first three see none.
  const AttentionCase problem({.queries = {8}, .keys = {5}, .causal = true});
  const auto found = problem.forward(true);
  const auto gradients = problem.backward(found);
  for (int64_t i = 0; i < 8; ++i) {
    const bool nothing = i < 3;
    EXPECT_EQ(std::isinf(found.log_sum_exp[static_cast<size_t>(i)]), nothing);
    double output = 0, gradient = 0;
    for (int64_t c = 0; c < found.output.cols_; ++c) {
      output += std::abs(static_cast<double>(found.output.at(i, c)));
      gradient += std::abs(static_cast<double>(gradients.query.at(i, c)));
    }
    EXPECT_EQ(output == 0, nothing);
    if (nothing) {
      EXPECT_EQ(gradient, 0);
    } else if (i == 3) {
      EXPECT_LT(gradient, 1e-5);  // the softmax of a single key is constant
    } else {
      EXPECT_GT(gradient, 1e-2);
    }
  }
}

TEST(Attention, PropagatesNan) {
  AttentionCase problem({.queries = {20}, .keys = {20}, .heads = 1});
  problem.query.data()[3 * problem.query.stride + 2] = std::nanf("");
  const auto found = problem.forward();
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(found.output.at(i, 0)), i == 3);
}

TEST(Attention, GradientsAccumulate) {
  for (const bool causal : {false, true}) {
    const AttentionCase problem(
        {.queries = {5, 0, 60}, .keys = {9, 6, 60}, .d_k = 9, .d_v = 20, .causal = causal});
    const auto found = problem.forward();
    const auto written = problem.backward(found), added = problem.backward(found, Accumulate::yes, 2.0f);
    const auto compare = [](const Rows& a, const Rows& b) {
      const auto x = a.values(), y = b.values();
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i] + 2.0f, y[i], 2e-6f);
    };
    compare(written.query, added.query);
    compare(written.key, added.key);
    compare(written.value, added.value);
  }
}

// Long sequences add up partial sums of the queries' gradients.
TEST(Attention, UnwantedGradientsChangeNoOther) {
  for (const int keys : {70, 3100}) {
    const AttentionCase problem({.queries = {60, 4},
                                 .keys = {keys, 9},
                                 .heads = 2,
                                 .d_k = 9,
                                 .d_v = 20,
                                 .key_heads = 1,
                                 .relative = true,
                                 .causal = true});
    const auto forward = problem.forward();
    const auto all = problem.backward(forward);
    for (const int wanted : {0, 1, 2, 3, 4, 5, 6}) {
      const bool query = (wanted & 1) != 0, key = (wanted & 2) != 0, value = (wanted & 4) != 0;
      const auto some = problem.backward(forward, Accumulate::no, 777.0f, {query, key, value});
      const auto expect = [&](bool computed, const Rows& found, const Rows& expected) {
        if (computed) {
          EXPECT_EQ(found.memory, expected.memory) << wanted;
        } else {
          EXPECT_TRUE(std::ranges::all_of(found.values(), [](float x) { return x == 777; })) << wanted;
        }
      };
      expect(query, some.query, all.query);
      expect(key, some.key, all.key);
      expect(value, some.value, all.value);
      EXPECT_EQ(some.relative, all.relative) << wanted;
    }
  }
}

// Few queries read keys and values in place.
TEST(Attention, FewQueriesOverManyKeys) {
  for_each_target([] {
    uint64_t seed = 1000;
    for (int keys = 1; keys <= 130; keys += keys < 70 ? 1 : 7) {
      for (const int queries : {1, 2, 4}) {
        check({.queries = {queries, 1},
               .keys = {keys, 131 - keys},
               .heads = 2,
               .d_k = keys % 2 == 0 ? 64 : 21,
               .d_v = keys % 3 == 0 ? 64 : 37,
               .causal = queries > 1,
               .keep = keys % 4 == 0 ? Mask::full : Mask::none,
               .dropout = keys % 5 == 0 ? 0.2f : 0.0f,
               .spare = 3,
               .seed = ++seed});
      }
    }
  });
}

// Unit vectors as values reveal every weight, and thus every random bit.
TEST(Attention, DropsTheSelectedWeights) {
  constexpr int kKeys = 45;
  AttentionCase problem(
      {.queries = {21, 50}, .keys = {kKeys, kKeys}, .heads = 3, .d_v = kKeys, .dropout = 0.4f});
  for (int64_t r = 0; r < problem.key_tokens(); ++r) {
    for (int64_t c = 0; c < problem.value.cols_; ++c) {
      problem.value.data()[r * problem.value.stride + c] = c % kKeys == r % kKeys ? 1.0f : 0.0f;
    }
  }
  for_each_target([&] {
    const auto output = problem.forward().output;
    const Dropout& dropout = problem.shape.dropout;
    int kept = 0;
    for (int64_t i = 0; i < problem.query_tokens(); ++i) {
      for (int64_t h = 0; h < 3; ++h) {
        for (int64_t j = 0; j < kKeys; ++j) {
          const bool keeps = dropout.keeps(static_cast<uint32_t>(i), static_cast<uint32_t>((h << 22) + j));
          ASSERT_EQ(output.at(i, h * kKeys + j) != 0, keeps);
          kept += keeps ? 1 : 0;
        }
      }
    }
    EXPECT_NEAR(kept / (71.0 * 3 * kKeys), 0.6, 0.02);
  });
}

}  // namespace
}  // namespace qkv::kernels

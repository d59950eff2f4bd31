#include "qkv/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "qkv/kernels/reference/optimizer.h"
#include "rowwise.h"

namespace qkv::kernels {
namespace {

struct Parameter {
  explicit Parameter(int64_t count, uint64_t seed)
      : value(count, seed),
        first_moment(count, seed + 1),
        second_moment(count, seed + 2),
        average(count, seed + 3) {
    for (int64_t i = 0; i < count; ++i) {
      first_moment[i] = second_moment[i] = 0;
      average[i] = value[i];
    }
  }
  Numbers value, first_moment, second_moment, average;
};

std::vector<double> widened(const Numbers& x) { return {x.data(), x.data() + x.size()}; }

// Several parameters of awkward sizes, one past a piece of work, over several steps.
TEST(Optimizer, AdamFollowsTheDoubleLoop) {
  for_each_target([] {
    const std::vector<int64_t> counts{1, 15, 16, 17, 31, 33, 70000};
    std::vector<Parameter> parameters;
    std::vector<reference::AdamState> states;
    for (const int64_t count : counts) {
      parameters.emplace_back(count, static_cast<uint64_t>(10 * count));
      const auto zeros = std::vector<double>(static_cast<size_t>(count));
      states.push_back({widened(parameters.back().value), zeros, zeros, widened(parameters.back().value)});
    }
    for (int64_t t = 1; t <= 5; ++t) {
      const AdamStep step{.learning_rate = 1e-2f,
                          .epsilon = 1e-6f,
                          .weight_decay = 0.1f,
                          .gradient_factor = 0.25f,
                          .step = t};
      std::vector<Numbers> gradients;
      std::vector<AdamSlot> slots;
      for (const int64_t count : counts) gradients.emplace_back(count, static_cast<uint64_t>(count + t));
      for (size_t i = 0; i < counts.size(); ++i) {
        Parameter& p = parameters[i];
        slots.push_back({.value = p.value.data(),
                         .gradient = gradients[i].data(),
                         .first_moment = p.first_moment.data(),
                         .second_moment = p.second_moment.data(),
                         .average = i == 2 ? nullptr : p.average.data(),
                         .count = counts[i]});
        reference::adam(step, {gradients[i].data(), static_cast<size_t>(counts[i])}, 0.9, states[i]);
      }
      adam(step, slots, 0.9f);
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string what = std::to_string(counts[i]) + " numbers: ";
      const Parameter& p = parameters[i];
      expect_near(p.first_moment, states[i].first_moment, 1e-7, 0, Accumulate::no, what + "first moment");
      expect_near(p.second_moment, states[i].second_moment, 1e-8, 1e-6, Accumulate::no,
                  what + "second moment");
      expect_near(p.value, states[i].value, 1e-6, 0, Accumulate::no, what + "value");
      if (i != 2) expect_near(p.average, states[i].average, 1e-6, 0, Accumulate::no, what + "average");
    }
  });
}

// Algorithm 1 by hand: after the first step the corrected moments are g and g^2, so the value moves by the
// learning rate against the gradient's sign, whatever its size.
TEST(Optimizer, TheFirstStepIsTheLearningRate) {
  Numbers gradient(50, 1);
  Parameter p(50, 2);
  const Numbers before = p.value;
  const AdamSlot slot{.value = p.value.data(),
                      .gradient = gradient.data(),
                      .first_moment = p.first_moment.data(),
                      .second_moment = p.second_moment.data(),
                      .count = 50};
  adam({.learning_rate = 0.125f}, {&slot, 1}, 0);
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(p.value[i], before[i] - std::copysign(0.125f, gradient[i]), 2e-6f) << gradient[i];
  }
}

TEST(Optimizer, AdamForAnyThreadsAndAnySplitIntoSlots) {
  const int64_t count = 150000;
  const Numbers gradient(count, 3);
  const auto run = [&](const std::vector<int64_t>& bounds) {
    Parameter p(count, 4);
    std::vector<AdamSlot> slots;
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      slots.push_back({.value = p.value.data() + bounds[i],
                       .gradient = gradient.data() + bounds[i],
                       .first_moment = p.first_moment.data() + bounds[i],
                       .second_moment = p.second_moment.data() + bounds[i],
                       .count = bounds[i + 1] - bounds[i]});
    }
    adam({.learning_rate = 1e-3f, .step = 3}, slots, 0);
    return p.value;
  };
  expect_same_for_any_threads([&] { return run({0, count}); });
  EXPECT_TRUE(run({0, 7, 7, 65536, count}).same_bits(run({0, count})));
}

TEST(Optimizer, SumOfSquares) {
  for_each_target([] {
    for (const int64_t count : {1, 2, 7, 8, 9, 15, 16, 17, 33, 1000, 32769, 200000}) {
      const Numbers x(count, 5, 3);
      long double expected = 0;
      for (int64_t i = 0; i < count; ++i)
        expected += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
      EXPECT_NEAR(sum_of_squares(x.data(), count), static_cast<double>(expected),
                  1e-13 * static_cast<double>(expected))
          << count;
    }
  });
  const Numbers x(500000, 6);
  expect_same_for_any_threads([&] {
    const double sum = sum_of_squares(x.data(), x.size());
    Numbers bits(2, 7);
    std::memcpy(bits.data(), &sum, sizeof sum);
    return bits;
  });
  EXPECT_EQ(sum_of_squares(x.data(), 0), 0.0);
}

TEST(Optimizer, AllFinite) {
  for_each_target([] {
    for (const int64_t count : {1, 7, 16, 33, 70000}) {
      Numbers x(count, 8, 3e38f);
      EXPECT_TRUE(all_finite(x.data(), count)) << count;
      for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
              -std::numeric_limits<float>::infinity()}) {
          const float good = x[at];
          x[at] = bad;
          EXPECT_FALSE(all_finite(x.data(), count)) << bad << " at " << at << " of " << count;
          x[at] = good;
        }
      }
    }
  });
}

}  // namespace
}  // namespace qkv::kernels

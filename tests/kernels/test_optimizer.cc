#include "qkv/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/reference/optimizer.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

// A tensor at an odd address with guards around it.
struct Guarded {
  Guarded(const Shape& shape, uint64_t seed, float size = 1, bool zero = false)
      : numbers(std::make_shared<Numbers>(shape.numel(), seed, size)) {
    if (zero) std::fill(numbers->data(), numbers->data() + numbers->size(), 0.0f);
    tensor = Tensor::wrap({numbers, reinterpret_cast<std::byte*>(numbers->data())}, shape, DType::f32);
  }
  std::shared_ptr<Numbers> numbers;
  Tensor tensor;
};

struct Parameter {
  Parameter(const Shape& shape, uint64_t seed, const std::vector<Shape>& states, bool averages)
      : value(shape, seed), average(shape, seed + 1) {
    average.tensor.copy_from(value.tensor);
    for (const Shape& state : states) state_.emplace_back(state, seed + 2, 1.0f, true);
    slot = {.value = value.tensor, .gradient = {}};
    for (size_t i = 0; i < state_.size(); ++i) slot.state[i] = state_[i].tensor;
    if (averages) slot.average = average.tensor;
  }
  // All buffers that a step may change.
  std::vector<const Guarded*> parts() const {
    std::vector<const Guarded*> all{&value, &average};
    for (const Guarded& state : state_) all.push_back(&state);
    return all;
  }
  Guarded value, average;
  OptimizerSlot slot;

 private:
  std::vector<Guarded> state_;
};

std::vector<ParameterUpdate> updates_of(std::span<OptimizerSlot> slots) {
  std::vector<ParameterUpdate> updates;
  for (OptimizerSlot& slot : slots) {
    const bool matrix = slot.value.rank() >= 2;
    ParameterUpdate& update = updates.emplace_back();
    update = {.value = slot.value.data(),
              .gradient = slot.gradient.data(),
              .average = slot.average.defined() ? slot.average.data() : nullptr,
              .matrix = matrix,
              .matrices = slot.value.rank() == 3 ? slot.value.dim(0) : 1,
              .rows = matrix ? slot.value.dim(-2) : 1,
              .cols = slot.value.dim(-1),
              .learning_rate = slot.learning_rate,
              .weight_decay = slot.weight_decay,
              .step = slot.step};
    for (size_t i = 0; i < 3; ++i) update.state[i] = slot.state[i].defined() ? slot.state[i].data() : nullptr;
  }
  return updates;
}

std::vector<double> widened(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

using Rule = std::function<void(const OptimizerPass&, std::span<OptimizerSlot>)>;

// `states`: shapes of the rule's state, for a given parameter shape.
void expect_follows(const std::string& name, const Rule& fast, const Rule& exact,
                    const std::function<std::vector<Shape>(const Shape&)>& states) {
  for_each_target([&] {
    SCOPED_TRACE(name);
    // Awkward sizes, including one more than a piece of work.
    const std::vector<Shape> shapes{{1}, {15}, {17}, {70000}, {3, 5}, {33, 17}, {300, 257}, {2, 3, 18}};
    std::vector<Parameter> found, expected;
    for (size_t i = 0; i < shapes.size(); ++i) {
      found.emplace_back(shapes[i], 10 * i, states(shapes[i]), i != 2);
      expected.emplace_back(shapes[i], 10 * i, states(shapes[i]), i != 2);
    }
    for (int64_t step = 1; step <= 4; ++step) {
      std::vector<OptimizerSlot> ours, theirs;
      for (size_t i = 0; i < shapes.size(); ++i) {
        const Guarded gradient(shapes[i], static_cast<uint64_t>(100 * step) + i);
        for (auto [all, slots] : {std::pair(&found, &ours), std::pair(&expected, &theirs)}) {
          OptimizerSlot& slot = (*all)[i].slot;
          slot.gradient = gradient.tensor;
          slot.learning_rate = i % 2 == 0 ? 1e-2f : 3e-2f;
          slot.weight_decay = i % 3 == 0 ? 0.1f : 0.0f;
          slot.step = i == 4 ? step + 7 : step;
          slots->push_back(slot);
        }
      }
      const OptimizerPass pass{.gradient_factor = 0.25f, .average_decay = 0.9f};
      fast(pass, ours);
      exact(pass, theirs);
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto ours = found[i].parts(), theirs = expected[i].parts();
      EXPECT_FALSE(found[i].value.numbers->same_bits(Numbers(shapes[i].numel(), 10 * i))) << "unchanged";
      for (size_t part = 0; part < ours.size(); ++part) {
        expect_near(*ours[part]->numbers, widened(theirs[part]->tensor), 1e-5, 1e-5, Accumulate::no,
                    concat(shapes[i], ", tensor ", part));
      }
    }
  });
}

std::function<std::vector<Shape>(const Shape&)> like_the_value(size_t count) {
  return [count](const Shape& shape) { return std::vector<Shape>(count, shape); };
}

TEST(Optimizer, AdamMatchesTheReference) {
  for (const AdamRule& rule : {AdamRule{.epsilon = 1e-6f}, AdamRule{.epsilon = 1e-6f, .decoupled = false},
                               AdamRule{.beta1 = 0.8f, .beta2 = 0.9f, .epsilon = 1e-3f, .amsgrad = true}}) {
    expect_follows(
        concat("decoupled ", rule.decoupled, ", amsgrad ", rule.amsgrad),
        [&](auto& pass, auto slots) { adam(rule, pass, slots); },
        [&](auto& pass, auto slots) { reference::adam(rule, pass, updates_of(slots)); },
        like_the_value(rule.amsgrad ? 3 : 2));
  }
}

TEST(Optimizer, SgdMatchesTheReference) {
  for (const SgdRule& rule : {SgdRule{}, SgdRule{.momentum = 0.9f, .dampening = 0.3f},
                              SgdRule{.momentum = 0.8f, .nesterov = true}}) {
    expect_follows(
        concat("momentum ", rule.momentum, ", Nesterov ", rule.nesterov),
        [&](auto& pass, auto slots) { sgd(rule, pass, slots); },
        [&](auto& pass, auto slots) { reference::sgd(rule, pass, updates_of(slots)); },
        like_the_value(rule.momentum == 0 ? 0 : 1));
  }
}

TEST(Optimizer, RmspropMatchesTheReference) {
  for (const bool centered : {false, true}) {
    for (const float momentum : {0.0f, 0.7f}) {
      const RmspropRule rule{.alpha = 0.9f, .epsilon = 1e-3f, .momentum = momentum, .centered = centered};
      expect_follows(
          concat("centered ", centered, ", momentum ", momentum),
          [&](auto& pass, auto slots) {
            for (OptimizerSlot slot : slots) {  // an unused state is undefined
              if (!centered) slot.state[1] = {};
              if (momentum == 0) slot.state[2] = {};
              rmsprop(rule, pass, {&slot, 1});
            }
          },
          [&](auto& pass, auto slots) { reference::rmsprop(rule, pass, updates_of(slots)); },
          like_the_value(3));
    }
  }
}

TEST(Optimizer, AdagradMatchesTheReference) {
  const AdagradRule rule{.lr_decay = 0.2f, .epsilon = 1e-4f};
  expect_follows(
      "adagrad", [&](auto& pass, auto slots) { adagrad(rule, pass, slots); },
      [&](auto& pass, auto slots) { reference::adagrad(rule, pass, updates_of(slots)); }, like_the_value(1));
}

TEST(Optimizer, AdafactorMatchesTheReference) {
  const auto states = [](const Shape& shape) -> std::vector<Shape> {
    if (shape.rank() < 2) return {shape};
    const int64_t matrices = shape.rank() == 3 ? shape[0] : 1;
    return {Shape{matrices * shape[-2]}, Shape{matrices * shape[-1]}};
  };
  for (const float threshold : {1.0f, 0.3f}) {
    const AdafactorRule rule{.beta2_decay = -0.7f, .clip_threshold = threshold};
    expect_follows(
        concat("threshold ", threshold), [&](auto& pass, auto slots) { adafactor(rule, pass, slots); },
        [&](auto& pass, auto slots) { reference::adafactor(rule, pass, updates_of(slots)); }, states);
  }
}

// Algorithm 1 by hand: after the first step the corrected moments are g and g^2, so the value moves by the
// learning rate against the gradient's sign, whatever its size.
TEST(Optimizer, TheFirstStepIsTheLearningRate) {
  const Guarded gradient({50}, 1);
  Parameter p({50}, 2, {{50}, {50}}, false);
  const Numbers before = *p.value.numbers;
  p.slot.gradient = gradient.tensor;
  p.slot.learning_rate = 0.125f;
  adam({}, {}, {&p.slot, 1});
  for (int64_t i = 0; i < 50; ++i) {
    const float g = (*gradient.numbers)[i];
    EXPECT_NEAR((*p.value.numbers)[i], before[i] - std::copysign(0.125f, g), 2e-6f) << g;
  }
}

TEST(Optimizer, AdamIsInvariantToThreadsAndSlots) {
  const int64_t count = 150000;
  const Tensor gradient = Guarded({count}, 3).tensor;
  const auto run = [&](const std::vector<int64_t>& bounds) {
    const Parameter p({count}, 4, {{count}, {count}}, false);
    std::vector<OptimizerSlot> slots;
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      const auto part = [&](const Tensor& x) { return x.slice_rows(bounds[i], bounds[i + 1] - bounds[i]); };
      slots.push_back({.value = part(p.slot.value),
                       .gradient = part(gradient),
                       .state = {part(p.slot.state[0]), part(p.slot.state[1])},
                       .learning_rate = 1e-3f,
                       .step = 3});
    }
    adam({}, {}, slots);
    return *p.value.numbers;
  };
  expect_same_for_any_threads([&] { return run({0, count}); });
  EXPECT_TRUE(run({0, 7, 7, 65536, count}).same_bits(run({0, count})));
}

TEST(Optimizer, AdafactorIsThreadInvariant) {
  const Tensor gradient = Guarded({400, 300}, 3).tensor;
  expect_same_for_any_threads([&] {
    Parameter p({400, 300}, 4, {{400}, {300}}, true);
    p.slot.gradient = gradient;
    p.slot.learning_rate = 1e-2f;
    adafactor({}, {.average_decay = 0.5f}, {&p.slot, 1});
    return *p.value.numbers;
  });
}

TEST(Optimizer, SumOfSquares) {
  for_each_target([] {
    for (const int64_t count : {1, 2, 7, 8, 9, 15, 16, 17, 33, 1000, 32769, 200000}) {
      const Numbers x(count, 5, 3);
      long double expected = 0;
      for (int64_t i = 0; i < count; ++i)
        expected += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
      EXPECT_NEAR(cpu::sum_of_squares(x.data(), count), static_cast<double>(expected),
                  1e-13 * static_cast<double>(expected))
          << count;
    }
  });
  const Numbers x(500000, 6);
  expect_same_for_any_threads([&] {
    const double sum = cpu::sum_of_squares(x.data(), x.size());
    Numbers bits(2, 7);
    std::memcpy(bits.data(), &sum, sizeof sum);
    return bits;
  });
  EXPECT_EQ(cpu::sum_of_squares(x.data(), 0), 0.0);
}

TEST(Optimizer, AllFinite) {
  for_each_target([] {
    for (const int64_t count : {1, 7, 16, 33, 70000}) {
      Numbers x(count, 8, 3e38f);
      EXPECT_TRUE(cpu::all_finite(x.data(), count)) << count;
      for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
              -std::numeric_limits<float>::infinity()}) {
          const float good = x[at];
          x[at] = bad;
          EXPECT_FALSE(cpu::all_finite(x.data(), count)) << bad << " at " << at << " of " << count;
          x[at] = good;
        }
      }
    }
  });
}

}  // namespace
}  // namespace qkv::kernels

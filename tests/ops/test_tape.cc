#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <optional>

#include "qkv/base/scope.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/gated.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/linear_activate.h"
#include "qkv/ops/linear_of.h"
#include "qkv/ops/norm.h"
#include "qkv/ops/on_gradient.h"
#include "qkv/ops/recompute.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

TEST(Tape, NothingIsRecordedWithoutATape) {
  const Variable x = Variable::parameter(random_tensor({3, 4}, 1));
  EXPECT_FALSE(activate(x, Activation::silu).requires_grad());
  Tape tape;
  EXPECT_TRUE(activate(x, Activation::silu).requires_grad());
  EXPECT_FALSE(activate(Variable(random_tensor({3, 4}, 1)), Activation::silu).requires_grad());
}

TEST(Tape, DoesNotNest) {
  Tape tape;
  EXPECT_THROW(Tape(), UsageError);
}

TEST(Tape, NamesTheFirstNonFiniteValue) {
  Variable x = Variable::parameter(random_tensor({2, 3}, 1));
  Tape tape;
  const NameScope encoder("encoder");
  const NameScope layer("layers", 3);
  activate(x, Activation::silu);
  EXPECT_EQ(tape.first_non_finite(), std::nullopt);
  x.mutable_value().values()[4] = std::numeric_limits<float>::infinity();
  {
    const NameScope attention("self_attn");
    activate(x, Activation::identity);
  }
  EXPECT_EQ(tape.first_non_finite(), "encoder.layers.3.self_attn: activate [2, 3]: infinity at element 4");
}

TEST(Tape, BackwardAcceptsRecordedValuesOnce) {
  const Variable x = Variable::parameter(random_tensor({2, 3}, 1));
  const Tensor coefficients = random_tensor({2, 3}, 2);
  const Variable outside = weighted_sum(x, coefficients);
  Tape tape;
  const auto refused = [&](const Variable& loss) {
    EXPECT_NE(
        message_of<Error>([&] { tape.backward(loss); }).find("expected a value that this tape has recorded"),
        std::string::npos);
    EXPECT_FALSE(x.has_grad());
  };
  refused(outside);
  refused(weighted_sum(Variable(coefficients), coefficients));
  refused(Variable::parameter(Tensor::full({1}, 2.0f)));

  const Variable y = activate(x, Activation::silu), loss = weighted_sum(y, coefficients);
  EXPECT_EQ(message_of<Error>([&] { tape.backward(y); }), "backward: expected one element, found [2, 3]");
  EXPECT_EQ(message_of<Error>([&] {
              tape.backward(y, Tensor::full({3, 2}, 1.0f));
            }),
            "backward: the gradient needs f32 and the value's shape [2, 3], found f32 [3, 2]");
  EXPECT_EQ(message_of<Error>([&] {
              tape.backward(y, Tensor::zeros({2, 3}, DType::i32));
            }),
            "backward: the gradient needs f32 and the value's shape [2, 3], found i32 [2, 3]");
  EXPECT_FALSE(x.has_grad());
  tape.backward(loss);
  const Tensor once = x.grad().clone();
  EXPECT_THROW(tape.backward(loss), UsageError) << "a second time";
  EXPECT_THROW(tape.backward(y, coefficients), UsageError) << "its records are gone";
  tape.backward(weighted_sum(activate(x, Activation::silu), coefficients));  // recorded afterwards
  for (int64_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(x.grad().values()[i], 2 * once.values()[i]);
}

// A leaf that is read twice, one through columns, one within a recomputed part, and one that nothing reads.
TEST(OnGradient, CallsOnceForEachLeafWhenItsGradientIsComplete) {
  const auto leaf = [](float value, int64_t columns = 4) {
    return Variable::parameter(Tensor::full({2, columns}, value));
  };
  const std::vector<Variable> leaves{leaf(1), leaf(2), leaf(3), leaf(4, 6), leaf(5)};
  const auto loss_of = [&] {
    const Variable early = leaves[0] * 2.0f + leaves[1];
    const Tensor inner = Tensor::full({2, 4}, 9);
    const Variable late =
        early * recomputed(inner, {leaves[2]}, [&] { return leaves[2] * 3.0f; }) * leaves[0];
    return mean(late * leaves[3].columns(1, 4));
  };
  std::vector<Tensor> expected;
  {
    Tape tape;
    tape.backward(loss_of());
    for (const Variable& one : leaves) {
      expected.push_back(one.has_grad() ? one.grad().clone() : Tensor());
      one.clear_grad();
    }
  }
  std::vector<size_t> order;
  std::vector<Tensor> found(leaves.size());
  Tape tape;
  const Variable loss = loss_of();
  {
    const OnGradient take(leaves, [&](size_t i) {
      order.push_back(i);
      found[i] = leaves[i].grad();
      leaves[i].clear_grad();
    });
    tape.backward(loss);
  }
  EXPECT_EQ(order, (std::vector<size_t>{3, 2, 1, 0, 4}));
  for (size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_FALSE(leaves[i].has_grad()) << i;
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    if (!found[i].defined()) continue;
    EXPECT_EQ(std::memcmp(found[i].data(), expected[i].data(), found[i].bytes()), 0) << i;
  }
  EXPECT_FALSE(found[4].defined());
}

TEST(Tape, AcceptsAGradientWithARowStride) {
  Tensor wide = random_tensor({4, 7}, 1);
  const Tensor before = wide.clone(), gradient = wide.columns(2, 3);
  using Operation = std::function<Variable(const Variable&)>;
  const LinearWeights weights({Variable::parameter(random_tensor({3, 3}, 2))});
  const Variable gain = Variable::parameter(random_tensor({3}, 3));
  const std::pair<const char*, Operation> operations[] = {
      {"activate", [](const Variable& x) { return activate(x, Activation::relu); }},
      {"linear", [&](const Variable& x) { return linear(x, weights); }},
      {"linear_activate", [&](const Variable& x) { return linear_activate(x, weights, Activation::silu); }},
      {"rms_norm", [&](const Variable& x) { return rms_norm(x, gain, 1e-5f); }},
      {"residual", [](const Variable& x) { return residual(x, x); }},
  };
  for (const auto& [name, operation] : operations) {
    const auto gradient_of_x = [&](const Tensor& upstream) {
      const Variable x = Variable::parameter(random_tensor({4, 3}, 4));
      Tape tape;
      tape.backward(operation(x), upstream);
      return x.grad().clone();
    };
    const Tensor expected = gradient_of_x(gradient.clone()), found = gradient_of_x(gradient);
    EXPECT_TRUE(std::ranges::equal(found.values(), expected.values())) << name;
    EXPECT_TRUE(std::ranges::equal(wide.values(), before.values())) << name << ": writes to its neighbours";
  }
}

TEST(Variable, UndefinedVariablesAreErrors) {
  const Variable nothing;
  const std::string expected = "encoder: expected a variable with a value, found an undefined one";
  const NameScope scope("encoder");
  const auto named = [&](const std::string& operation) {
    return "encoder: " + operation + expected.substr(std::string("encoder").size());
  };
  EXPECT_EQ(message_of<Error>([&] { activate(nothing, Activation::silu); }), named("activate"));
  EXPECT_EQ(message_of<Error>([&] { residual(random_tensor({2, 3}, 1), nothing); }), named("residual"));
  EXPECT_EQ(message_of<Error>([&] { nothing.gradient_slot(); }), expected);
  EXPECT_EQ(message_of<Error>([&] { nothing.columns(0, 1); }), expected);
  EXPECT_EQ(message_of<Error>([&] { Variable(nothing).set_value(random_tensor({1}, 1)); }), expected);
}

TEST(Variable, FrozenLeavesGetNoGradient) {
  const Variable x = Variable::parameter(random_tensor({2, 3}, 1));
  const Variable other_handle = x;
  x.set_requires_grad(false);
  EXPECT_FALSE(other_handle.requires_grad());
  {
    Tape tape;
    EXPECT_FALSE(activate(x, Activation::silu).requires_grad());
    const Variable y = Variable::parameter(random_tensor({2, 3}, 2));
    tape.backward(weighted_sum(residual(x, y), random_tensor({2, 3}, 3)));
    EXPECT_FALSE(x.has_grad());
    EXPECT_TRUE(y.has_grad());
  }
  x.set_requires_grad(true);
  Tape tape;
  const Variable y = activate(x, Activation::silu);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_THROW(y.set_requires_grad(false), UsageError);
  EXPECT_THROW(Variable(random_tensor({1}, 1)).set_requires_grad(true), UsageError);
}

// Each kind of access waits for a value on its way, once; again after a failure.
TEST(Variable, AnAccessWaitsForAnArrivingValue) {
  Variable x = Variable::parameter(Tensor::zeros({2, 4}));
  const Variable columns = x.columns(2, 2);
  const Tensor memory = x.value();
  int waits = 0;
  const auto arrive = [&] {
    ++waits;
    Tensor(memory).data()[2] = 7;
  };
  const std::vector<std::function<void()>> accesses{
      [&] { EXPECT_EQ(x.value().data()[2], 7); }, [&] { EXPECT_EQ(columns.value().data()[0], 7); },
      [&] { EXPECT_EQ(x.mutable_value().data()[2], 7); }, [&] { x.set_value(memory); }};
  for (const auto& access : accesses) {
    Tensor(memory).data()[2] = 0;
    waits = 0;
    x.set_arriving([] { throw UsageError("lost"); });
    EXPECT_THROW(access(), UsageError);
    EXPECT_THROW(access(), UsageError);
    x.set_arriving(arrive);
    EXPECT_EQ(x.shape(), (Shape{2, 4}));
    EXPECT_EQ(waits, 0);
    access();
    access();
    EXPECT_EQ(waits, 1);
  }
  x.set_arriving(arrive);
  x.set_arriving({});
  EXPECT_EQ(memory.data()[2], x.value().data()[2]);
  EXPECT_EQ(waits, 1);
}

TEST(Variable, ColumnsShareValueAndGradient) {
  const Variable x = Variable::parameter(random_tensor({3, 5}, 1));
  const Variable left = x.columns(0, 2), right = x.columns(3, 2);
  EXPECT_EQ(right.value().data()[5], x.value().data()[8]);
  right.add_grad(Tensor::full({3, 2}, 2.0f));
  left.add_grad(Tensor::full({3, 2}, 1.0f));
  right.add_grad(Tensor::full({3, 2}, 0.5f));
  const std::vector<float> row{1, 1, 0, 2.5f, 2.5f};
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(x.grad().values()[i], row[i % 5]) << i;
}

TEST(Variable, GradientsOfViewsCoverTheWhole) {
  const Variable x = Variable::parameter(random_tensor({2, 6}, 1));
  const auto expect_row = [&](const std::vector<float>& row) {
    for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(x.grad().values()[i], row[i % 6]) << i;
  };
  const auto add = [](const Variable& to, float value) { to.add_grad(Tensor::full(to.shape(), value)); };
  Variable whole = x;
  for (int round = 0; round < 2; ++round) {
    whole.clear_grad();
    release_cached_memory();
    Tensor::full({2, 6}, 99.0f);  // the gradient's memory
    add(x.columns(2, 2), 1);
    add(x.columns(3, 2), 2);  // half of it written
    expect_row({0, 0, 1, 3, 2, 0});
    add(x.columns(0, 4).columns(1, 2), 4);
    expect_row({0, 4, 5, 3, 2, 0});
    add(x, 8);
    expect_row({8, 12, 13, 11, 10, 8});
  }
  whole.clear_grad();
  add(x.columns(4, 2), 1);
  add(x, 2);  // the whole after a view
  expect_row({2, 2, 2, 2, 3, 3});
}

TEST(Linear, SeesChangedWeights) {
  Variable w = Variable::parameter(random_tensor({4, 3}, 1));
  const LinearWeights weights({w});
  const Tensor x = random_tensor({2, 3}, 2);
  const Tensor before = linear(x, weights).value();
  for (float& value : w.mutable_value().values()) value *= 2;
  const Tensor after = linear(x, weights).value();
  for (int64_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(after.values()[i], 2 * before.values()[i]);
}

// The gradients of a function's inputs, and its value.
std::vector<Tensor> run(const std::function<Variable(const std::vector<Variable>&)>& function,
                        const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.push_back(Variable::parameter(input.clone()));
  Tape tape;
  const Variable y = function(leaves);
  std::vector<Tensor> results{y.value().clone()};
  tape.backward(weighted_sum(y, random_tensor(y.shape(), 99)));
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

void expect_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape(), b[i].shape());
    EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].bytes()), 0) << "tensor " << i;
  }
}

TEST(LinearActivate, EqualsActivateOfLinear) {
  const std::vector<Tensor> inputs{random_tensor({9, 5}, 1), random_tensor({7, 5}, 2), random_tensor({7}, 3)};
  for (const Activation activation : {Activation::relu, Activation::gelu_exact, Activation::identity}) {
    for (const float rate : {0.0f, 0.4f}) {
      const Dropout dropout{.rate = rate, .seed = 5, .step = 2, .site = 3};
      const auto fused = run(
          [&](const auto& in) {
            return linear_activate(in[0], LinearWeights({in[1]}, {in[2]}), activation, dropout);
          },
          inputs);
      const auto in_steps = run(
          [&](const auto& in) {
            return activate(linear(in[0], LinearWeights({in[1]}, {in[2]})), activation, dropout);
          },
          inputs);
      expect_same_bits(fused, in_steps);
    }
  }
}

TEST(LinearOf, EqualsLinearOfTheComputedWeight) {
  for (const bool with_gate : {false, true}) {
    const std::vector<Tensor> inputs{random_tensor({9, with_gate ? 10 : 5}, 1), random_tensor({7, 5}, 2),
                                     random_tensor({7}, 3)};
    for (const float rate : {0.0f, 0.4f}) {
      const Dropout dropout{.rate = rate, .seed = 5, .step = 2, .site = 3};
      const auto inner = [&](const Variable& x) {
        return with_gate ? gated(x.columns(0, 5), x.columns(5, 5), Activation::silu, dropout)
                         : activate(x, Activation::gelu_exact, dropout);
      };
      for (const WeightLayout layout :
           {WeightLayout::in_place, WeightLayout::packed, WeightLayout::packed_bf16}) {
        const auto again = run(
            [&](const auto& in) {
              return linear_of([&inner, x = in[0]] { return inner(x); }, {in[0]},
                               LinearWeights({in[1]}, {in[2]}), layout);
            },
            inputs);
        const auto kept =
            run([&](const auto& in) { return linear(inner(in[0]), LinearWeights({in[1]}, {in[2]}), layout); },
                inputs);
        expect_same_bits(again, kept);
      }
    }
  }
}

TEST(Tape, ParameterGradientsUseMemoryFromBackwardToClear) {
  const Variable x = Variable::parameter(random_tensor({40, 50}, 1));
  const auto of_gradients = [] {
    return allocator_stats().in_use_for[static_cast<size_t>(MemoryUse::gradients)];
  };
  const size_t before = of_gradients();
  for (int round = 0; round < 2; ++round) {
    Tape tape;
    const Variable loss = weighted_sum(x, random_tensor({40, 50}, 3));
    EXPECT_EQ(of_gradients(), before);
    tape.backward(loss);
    EXPECT_GE(of_gradients(), before + 40 * 50 * sizeof(float));
    x.clear_grad();
    EXPECT_EQ(of_gradients(), before);
  }
}

TEST(LinearOf, DoesNotKeepTheComputedWeight) {
  const Variable x = Variable::parameter(random_tensor({400, 50}, 1));
  const LinearWeights weights({Variable::parameter(random_tensor({3, 50}, 2))});
  int calls = 0;
  const auto inner = [&] {
    ++calls;
    return activate(x, Activation::gelu_exact);
  };
  // Without the scratch memory of a thread that multiplies for the first time.
  const auto in_use = [] {
    const AllocatorStats stats = allocator_stats();
    return stats.in_use - stats.in_use_for[static_cast<size_t>(MemoryUse::scratch)];
  };
  const auto kept_by = [&](const std::function<Variable()>& run) {
    const size_t before = in_use();
    Tape tape;
    const Variable y = run();
    return in_use() - before;
  };
  const size_t bytes = 400 * 50 * sizeof(float);
  EXPECT_GE(kept_by([&] { return linear(inner(), weights); }), bytes);
  EXPECT_LT(kept_by([&] { return linear_of(inner, {x}, weights); }), bytes / 2);
  calls = 0;
  Tape tape;
  const Variable y = linear_of(inner, {x}, weights);
  EXPECT_EQ(calls, 1);
  tape.backward(weighted_sum(y, random_tensor({400, 3}, 3)));
  EXPECT_EQ(calls, 2);
}

TEST(LinearOf, RecordsDependenceOnAParameter) {
  const Tensor x = random_tensor({4, 5}, 1), w = random_tensor({3, 5}, 2), dy = random_tensor({4, 3}, 3);
  const auto of = [&](const Variable& input, const Variable& weight) {
    return linear_of([input] { return activate(input, Activation::tanh); }, {input}, LinearWeights({weight}));
  };
  EXPECT_FALSE(of(Variable::parameter(x), w).requires_grad()) << "without a tape";
  Tape tape;
  EXPECT_FALSE(of(x, w).requires_grad());
  const Variable input = Variable::parameter(x), weight = Variable::parameter(w);
  tape.backward(weighted_sum(of(x, weight), dy));
  const Variable same = Variable::parameter(w);
  {
    const Tape::Pause pause;
    Tape next;
    next.backward(weighted_sum(linear(activate(x, Activation::tanh), LinearWeights({same})), dy));
  }
  expect_same_bits({weight.grad()}, {same.grad()});
  weight.set_requires_grad(false);
  {
    const Tape::Pause pause;
    Tape next;
    next.backward(weighted_sum(of(input, weight), dy));
  }
  EXPECT_TRUE(input.has_grad());
  EXPECT_FALSE(weight.has_grad());
}

TEST(ResidualLayerNorm, SameBitsInPlace) {
  const std::vector<Tensor> inputs{random_tensor({9, 20}, 1), random_tensor({9, 20}, 2),
                                   random_tensor({20}, 3), random_tensor({20}, 4)};
  const auto with = [&](Reuse reuse, const Dropout& dropout) {
    return run(
        [=](const auto& in) {
          return residual_layer_norm(in[0], activate(in[1], Activation::silu), dropout, in[2], in[3], 1e-5f,
                                     reuse);
        },
        inputs);
  };
  for (const float rate : {0.0f, 0.4f}) {
    const Dropout dropout{.rate = rate, .seed = 5, .step = 2, .site = 3};
    expect_same_bits(with(Reuse::none, dropout), with(Reuse::in_place, dropout));
  }
}

TEST(Errors, NameTheModule) {
  const NameScope encoder("encoder"), layer("layers", 3);
  EXPECT_EQ(message_of<Error>([] {
              residual(random_tensor({2, 5}, 1), random_tensor({5, 2}, 1));
            }),
            "encoder.layers.3: residual: shapes differ: [2, 5] and [5, 2]");
}

TEST(Errors, NameBothShapes) {
  const LinearWeights weights({Variable(random_tensor({4, 3}, 1))});
  try {
    linear(random_tensor({2, 5}, 1), weights);
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("[2, 5]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("[4, 3]"), std::string::npos) << error.what();
  }
  EXPECT_THROW(residual(random_tensor({2, 5}, 1), random_tensor({5, 2}, 1)), ShapeError);
  EXPECT_THROW(embedding(random_tensor({4, 3}, 1), Tensor::from(std::vector<int32_t>{4}, {1}), {}, {}),
               DataError);
}

}  // namespace

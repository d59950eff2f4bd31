#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include "qkv/kernels/reference/activation.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

// The two inputs as columns of one matrix, as from one product.
Gated on_columns(const Numbers& both, int64_t rows, int64_t cols, Activation activation,
                 const Dropout& dropout = {}) {
  return {.activation = activation,
          .gate = both.data(),
          .x = both.data() + cols,
          .gate_stride = 2 * cols,
          .x_stride = 2 * cols,
          .rows = rows,
          .cols = cols,
          .dropout = dropout};
}

TEST(Gated, MatchesTheReference) {
  for_each_target([] {
    for (const Activation activation : kActivations) {
      for (int64_t cols = 1; cols <= 35; ++cols) {
        const int64_t rows = 3;
        const Numbers both(rows * 2 * cols, 1, 3), dy(rows * cols, 2);
        for (const float rate : {0.0f, 0.25f}) {
          const std::string what =
              std::to_string(cols) + " columns, activation " + std::to_string(static_cast<int>(activation));
          const Gated arguments = on_columns(both, rows, cols, activation, some_dropout(rate));
          Numbers y(rows * cols, 3);
          cpu::gated(arguments, y.data());
          expect_near(y, reference::gated(arguments), 2e-6, 1e-6, Accumulate::no, what);
          const auto expected = reference::gated_backward(arguments, dy.data());
          for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
            Numbers gate(rows * cols, 4), x(rows * cols, 5);
            cpu::gated_backward(arguments, dy.data(), {gate.data(), cols, accumulate},
                                {x.data(), cols, accumulate});
            expect_near(gate, expected.gate, 4e-6, 1e-6, accumulate, what);
            expect_near(x, expected.x, 4e-6, 1e-6, accumulate, what);
          }
        }
      }
    }
  });
}

TEST(Gated, WritesOnlyRequestedGradients) {
  const int64_t rows = 2, cols = 19;
  const Numbers both(rows * 2 * cols, 6), dy(rows * cols, 7);
  const Gated arguments = on_columns(both, rows, cols, Activation::silu);
  const auto expected = reference::gated_backward(arguments, dy.data());
  Numbers gate(rows * cols, 8), x(rows * cols, 9);
  cpu::gated_backward(arguments, dy.data(), {gate.data(), cols}, {});
  expect_near(gate, expected.gate, 4e-6, 1e-6, Accumulate::no, "gate alone");
  cpu::gated_backward(arguments, dy.data(), {}, {x.data(), cols});
  expect_near(x, expected.x, 4e-6, 1e-6, Accumulate::no, "x alone");
}

TEST(Gated, RowsAreIndependentAndThreadInvariant) {
  const int64_t rows = 90, cols = 301;
  const Numbers both(rows * 2 * cols, 10);
  const auto run = [&](int64_t first, int64_t count) {
    Gated arguments = on_columns(both, count, cols, Activation::silu, some_dropout());
    arguments.gate = arguments.gate + first * 2 * cols;
    arguments.x = arguments.x + first * 2 * cols;
    arguments.dropout.first_row += static_cast<uint32_t>(first);
    Numbers y(count * cols, 11);
    cpu::gated(arguments, y.data());
    return y;
  };
  expect_same_for_any_threads([&] { return run(0, rows); });
  const Numbers all = run(0, rows), one = run(70, 1);
  EXPECT_EQ(std::memcmp(one.data(), all.data() + 70 * cols, static_cast<size_t>(cols) * 4), 0);
}

}  // namespace
}  // namespace qkv::kernels

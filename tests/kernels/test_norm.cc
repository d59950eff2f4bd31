#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include "qkv/kernels/reference/norm.h"
#include "qkv/tensor/storage.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

constexpr NormKind kKinds[] = {NormKind::layer, NormKind::rms};
constexpr int64_t kColumns[] = {2, 3, 8, 15, 16, 17, 31, 33, 64, 100, 511, 512, 513, 1030, 4099};

// Numbers far from zero, as in a long residual stream.
Numbers features(int64_t rows, int64_t cols, uint64_t seed) {
  Numbers x(rows * cols, seed, 2, 1 + static_cast<int64_t>(seed % 3));
  for (int64_t i = 0; i < x.size(); ++i) x[i] += 0.5f * static_cast<float>(1 + i % 2);
  return x;
}

struct Forward {
  Numbers sum, y, mean, rstd;
};

Forward run(const NormInput& input, bool with_sum) {
  const int64_t count = input.rows * input.cols;
  Forward f{Numbers(count, 91), Numbers(count, 92), Numbers(input.rows, 93), Numbers(input.rows, 94)};
  cpu::norm_forward(input, {.sum = with_sum ? f.sum.data() : nullptr,
                            .y = f.y.data(),
                            .mean = f.mean.data(),
                            .rstd = f.rstd.data()});
  return f;
}

TEST(Norm, ForwardWithAndWithoutResidualAndDropout) {
  for_each_target([] {
    for (const int64_t cols : kColumns) {
      const int64_t rows = 5;
      const Numbers x = features(rows, cols, 1), residual = features(rows, cols, 2), weight(cols, 3),
                    bias(cols, 4);
      for (const NormKind kind : kKinds) {
        for (const bool has_residual : {false, true}) {
          // The sum is stored if there is dropout, and not otherwise.
          for (const auto& [rate, with_sum] :
               {std::pair{0.0f, false}, {0.25f, true}, {0.25f, false}, {0.0f, true}}) {
            const NormInput input{.x = x.data(),
                                  .residual = has_residual ? residual.data() : nullptr,
                                  .dropout = some_dropout(rate),
                                  .kind = kind,
                                  .weight = weight.data(),
                                  .bias = kind == NormKind::rms ? nullptr : bias.data(),
                                  .epsilon = 1e-5f,
                                  .rows = rows,
                                  .cols = cols};
            const auto expected = reference::norm_forward(input);
            const Forward f = run(input, with_sum);
            const std::string what =
                std::to_string(cols) + " columns, residual " + std::to_string(has_residual);
            // With two or three columns, the deviation may be small, and the error grows with its inverse.
            double inverse = 1;
            for (const double v : expected.rstd) inverse = std::max(inverse, v);
            expect_near(f.y, expected.y, 2e-6 * inverse, 0, Accumulate::no, what);
            expect_near(f.mean, expected.mean, 5e-7, 5e-7, Accumulate::no, what);
            expect_near(f.rstd, expected.rstd, 0, 1e-6 * inverse, Accumulate::no, what);
            if (with_sum) expect_near(f.sum, expected.sum, 3e-7, 3e-7, Accumulate::no, what);
          }
        }
      }
    }
  });
}

TEST(Norm, ResidualAloneAndInPlace) {
  for_each_target([] {
    const int64_t rows = 6, cols = 530;
    Numbers x = features(rows, cols, 5);
    const Numbers residual = features(rows, cols, 6), weight(cols, 7), bias(cols, 8);
    NormInput input{
        .x = x.data(), .residual = residual.data(), .dropout = some_dropout(), .rows = rows, .cols = cols};
    const auto sum = reference::norm_forward(input).sum;
    const Numbers y_before(rows * cols, 9);
    Numbers y = y_before;
    cpu::norm_forward(input, {.sum = x.data(), .y = y.data()});
    expect_near(x, sum, 3e-7, 3e-7, Accumulate::no, "sum in the place of x");
    EXPECT_TRUE(y.same_bits(y_before)) << "y is not written without weight";

    Numbers in_place = features(rows, cols, 10), in_residual = residual;
    input = {.x = in_place.data(),
             .residual = residual.data(),
             .weight = weight.data(),
             .bias = bias.data(),
             .rows = rows,
             .cols = cols};
    const auto expected = reference::norm_forward(input).y;
    Numbers elsewhere(rows * cols, 11);
    cpu::norm_forward(input, {.y = elsewhere.data()});
    expect_near(elsewhere, expected, 3e-6, 0, Accumulate::no, "y");
    input.residual = in_residual.data();
    cpu::norm_forward(input, {.y = in_residual.data()});
    EXPECT_TRUE(in_residual.same_bits(elsewhere)) << "y in the place of residual";
    cpu::norm_forward(
        {.x = elsewhere.data(), .weight = weight.data(), .bias = bias.data(), .rows = rows, .cols = cols},
        {.y = in_residual.data()});
    cpu::norm_forward(
        {.x = elsewhere.data(), .weight = weight.data(), .bias = bias.data(), .rows = rows, .cols = cols},
        {.y = elsewhere.data()});
    EXPECT_TRUE(in_residual.same_bits(elsewhere)) << "y in the place of x";
  });
}

TEST(Norm, RowsAreIndependentAndThreadInvariant) {
  for_each_target([] {
    const int64_t rows = 150, cols = 257;
    const Numbers x = features(rows, cols, 12), residual = features(rows, cols, 13), weight(cols, 14),
                  bias(cols, 15);
    NormInput input{.x = x.data(),
                    .residual = residual.data(),
                    .dropout = some_dropout(),
                    .weight = weight.data(),
                    .bias = bias.data(),
                    .rows = rows,
                    .cols = cols};
    expect_same_for_any_threads([&] { return run(input, true).y; });
    const Numbers all = run(input, true).y;
    input.x = input.x + 100 * cols;
    input.residual = input.residual + 100 * cols;
    input.dropout.first_row += 100;
    input.rows = 1;
    const Numbers one = run(input, true).y;
    EXPECT_EQ(std::memcmp(one.data(), all.data() + 100 * cols, static_cast<size_t>(cols) * 4), 0);
  });
}

void check_backward(NormKind kind) {
  for_each_target([kind] {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 17}, {3, 64}, {130, 33}, {70, 515}}) {
      const Numbers z = features(rows, cols, 16), dy(rows * cols, 17), weight(cols, 18), bias(cols, 19);
      const Forward f = run({.x = z.data(),
                             .kind = kind,
                             .weight = weight.data(),
                             .bias = kind == NormKind::rms ? nullptr : bias.data(),
                             .rows = rows,
                             .cols = cols},
                            false);
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        for (const float rate : {0.0f, 0.25f}) {
          Numbers dz(rows * cols, 20), residual(rows * cols, 21), d_weight(cols, 22), d_bias(cols, 23);
          NormBackward arguments{.kind = kind,
                                 .z = z.data(),
                                 .weight = weight.data(),
                                 .mean = f.mean.data(),
                                 .rstd = f.rstd.data(),
                                 .dy = dy.data(),
                                 .rows = rows,
                                 .cols = cols,
                                 .dz = dz.data(),
                                 .dz_accumulate = accumulate,
                                 .residual_gradient = residual.data(),
                                 .residual_accumulate = accumulate,
                                 .dropout = some_dropout(rate),
                                 .weight_gradient = d_weight.data(),
                                 .bias_gradient = kind == NormKind::rms ? nullptr : d_bias.data(),
                                 .weight_accumulate = accumulate,
                                 .bias_accumulate = accumulate};
          const auto expected = reference::norm_backward(arguments, 1e-5f);
          cpu::norm_backward(arguments);
          const std::string what = std::to_string(rows) + " x " + std::to_string(cols);
          const double of_sums = 2e-6 * std::sqrt(static_cast<double>(rows));
          expect_near(dz, expected.dz, 3e-6, 0, accumulate, what + " dz");
          expect_near(residual, expected.residual, 4e-6, 0, accumulate, what + " residual");
          expect_near(d_weight, expected.weight, of_sums, 0, accumulate, what + " weight");
          if (kind == NormKind::layer) {
            expect_near(d_bias, expected.bias, of_sums, 0, accumulate, what + " bias");
          }

          // Each output is optional, and dz may overwrite dy.
          Numbers in_place = dy;
          arguments.dz = in_place.data();
          arguments.dy = in_place.data();
          arguments.dz_accumulate = Accumulate::no;
          arguments.residual_gradient = nullptr;
          arguments.weight_gradient = arguments.bias_gradient = nullptr;
          cpu::norm_backward(arguments);
          expect_near(in_place, expected.dz, 3e-6, 0, Accumulate::no, what + " dz in the place of dy");
        }
      }
    }
  });
}

TEST(Norm, Backward) { check_backward(NormKind::layer); }
TEST(Norm, BackwardOfRms) { check_backward(NormKind::rms); }

TEST(Norm, BackwardIsThreadInvariant) {
  const int64_t rows = 700, cols = 130;
  const Numbers z = features(rows, cols, 24), dy(rows * cols, 25), weight(cols, 26), bias(cols, 27);
  const Forward f =
      run({.x = z.data(), .weight = weight.data(), .bias = bias.data(), .rows = rows, .cols = cols}, false);
  Numbers dz(rows * cols, 28);
  expect_same_for_any_threads([&] {
    Numbers gradients(2 * cols, 29);
    cpu::norm_backward({.z = z.data(),
                        .weight = weight.data(),
                        .mean = f.mean.data(),
                        .rstd = f.rstd.data(),
                        .dy = dy.data(),
                        .rows = rows,
                        .cols = cols,
                        .dz = dz.data(),
                        .weight_gradient = gradients.data(),
                        .bias_gradient = gradients.data() + cols});
    return gradients;
  });
}

// Checks the reference: its gradients are the slopes of its values.
void check_reference(NormKind kind) {
  const int64_t rows = 2, cols = 6;
  Numbers z = features(rows, cols, 30);
  const Numbers dy(rows * cols, 31), weight(cols, 32), bias(cols, 33);
  const NormInput input{.x = z.data(),
                        .kind = kind,
                        .weight = weight.data(),
                        .bias = kind == NormKind::rms ? nullptr : bias.data(),
                        .rows = rows,
                        .cols = cols};
  const auto loss = [&] {
    const auto y = reference::norm_forward(input).y;
    double sum = 0;
    for (int64_t i = 0; i < dy.size(); ++i) sum += y[static_cast<size_t>(i)] * double{dy[i]};
    return sum;
  };
  const auto gradients = reference::norm_backward(
      {.kind = kind, .z = z.data(), .weight = weight.data(), .dy = dy.data(), .rows = rows, .cols = cols},
      1e-5f);
  for (int64_t i = 0; i < z.size(); ++i) {
    const float at = z[i], h = 1.0f / 1024;
    z[i] = at + h;
    const double above = loss(), high = double{z[i]};
    z[i] = at - h;
    const double below = loss(), low = double{z[i]};
    z[i] = at;
    EXPECT_NEAR(gradients.dz[static_cast<size_t>(i)], (above - below) / (high - low), 2e-5);
  }
}

// Memory by use: sums of blocks of rows are no activations.
TEST(Norm, BlockSumsAreScratch) {
  const int64_t rows = 300, cols = 1000, blocks = 5;
  const Numbers z = features(rows, cols, 40), dy(rows * cols, 41), weight(cols, 42), mean(rows, 43),
                rstd(rows, 44);
  Numbers sums(cols, 45);
  const auto expect_scratch = [&](int64_t floats, const auto& kernel) {
    const auto of = [](const auto& uses, MemoryUse use) { return uses[static_cast<size_t>(use)]; };
    const size_t before = of(allocator_stats().in_use_for, MemoryUse::activations);
    reset_allocator_peak();
    kernel();
    const AllocatorStats stats = allocator_stats();
    EXPECT_EQ(of(stats.at_peak, MemoryUse::activations), before);
    EXPECT_GE(of(stats.at_peak, MemoryUse::scratch), static_cast<size_t>(floats) * sizeof(float));
  };
  expect_scratch(blocks * cols,
                 [&] { cpu::column_sums(dy.data(), rows, cols, cols, sums.data(), Accumulate::no); });
  expect_scratch(2 * blocks * cols, [&] {
    cpu::norm_backward({.z = z.data(),
                        .weight = weight.data(),
                        .mean = mean.data(),
                        .rstd = rstd.data(),
                        .dy = dy.data(),
                        .rows = rows,
                        .cols = cols,
                        .weight_gradient = sums.data()});
  });
}

TEST(Norm, ReferenceGradientsMatchFiniteDifferences) {
  for (const NormKind kind : kKinds) check_reference(kind);
}

}  // namespace
}  // namespace qkv::kernels

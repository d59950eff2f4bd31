#include "qkv/kernels/counters.h"

#include <gtest/gtest.h>

#include "qkv/kernels/cpu/attention/attention.h"
#include "qkv/kernels/cpu/embedding.h"
#include "qkv/kernels/cpu/loss.h"
#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/norm.h"
#include "qkv/kernels/cpu/pointwise.h"
#include "qkv/kernels/limits.h"
#include "qkv/kernels/optimizer.h"
#include "rowwise.h"

namespace qkv::kernels {
namespace {

struct Work {
  uint64_t macs, numbers;
  friend bool operator==(const Work&, const Work&) = default;
};

std::ostream& operator<<(std::ostream& out, const Work& work) {
  return out << work.macs << " multiplications, " << work.numbers << " numbers";
}

template <class Call>
Work counted(const Call& call) {
  const uint64_t macs = counted_macs(), bytes = counted_bytes();
  call();
  return {counted_macs() - macs, (counted_bytes() - bytes) / sizeof(float)};
}

// 7 x 5 times 5 x 3.
TEST(Counters, AProductReadsItsFactorsAndWritesItsResult) {
  Numbers a(35, 1), w(15, 2), c(21, 3);
  const Matrix weight{w.data(), 3, 5, 5};
  cpu::PackedMatrix packed;
  EXPECT_EQ(counted([&] { packed = cpu::PackedMatrix::transposed(std::span(&weight, 1)); }), (Work{0, 30}));
  const auto product = [&](Accumulate accumulate) {
    return counted([&] {
      cpu::matmul({a.data(), 7, 5, 5}, packed, nullptr, {c.data(), 7, 3, 3}, accumulate);
    });
  };
  EXPECT_EQ(product(Accumulate::no), (Work{105, 35 + 15 + 21}));
  EXPECT_EQ(product(Accumulate::yes), (Work{105, 35 + 15 + 2 * 21}));
  EXPECT_EQ(counted([&] {
              cpu::matmul_transposed_a({c.data(), 7, 3, 3}, {a.data(), 7, 5, 5}, {w.data(), 3, 5, 5},
                                       Accumulate::yes);
            }),
            (Work{105, 21 + 35 + 2 * 15}));
}

// Two sequences, of 3 queries and 4 keys and of 0 queries and 5 keys: the latter's keys are never read.
TEST(Counters, AttentionLeavesOutKeysWithoutQueries) {
  const std::vector<int32_t> queries{0, 3, 3}, keys{0, 4, 9};
  constexpr int64_t kHeads = 2, kWidth = 8, kValue = 16;
  Numbers q(3 * 16, 1), k(9 * 16, 2), v(9 * 32, 3), o(3 * 32, 4), lse(6, 5);
  const AttentionShape shape{.sequences = 2,
                             .query_offsets = queries.data(),
                             .key_offsets = keys.data(),
                             .heads = kHeads,
                             .d_k = kWidth,
                             .d_v = kValue};
  const Work work = counted([&] {
    cpu::attention_forward(shape, {q.data(), k.data(), v.data(), 16, 16, 32},
                           {.output = o.data(), .output_stride = 32, .log_sum_exp = lse.data()});
  });
  EXPECT_EQ(work, (Work{2 * 12 * (8 + 16), 3 * 16 + 4 * 16 + 4 * 32 + 3 * 32}));
}

TEST(Counters, RowsCountWhatIsReadAndWritten) {
  constexpr int64_t kRows = 3, kCols = 20, kAll = kRows * kCols;
  Numbers x(kAll, 1), y(kAll, 2), z(kAll, 3), gain(kCols, 4), shift(kCols, 5), mean(kRows, 6), dev(kRows, 7);
  EXPECT_EQ(counted([&] { cpu::scale(x.data(), 2, y.data(), kAll, Accumulate::yes); }), (Work{0, 3 * kAll}));
  EXPECT_EQ(counted([&] { cpu::add(x.data(), y.data(), z.data(), kAll); }), (Work{0, 3 * kAll}));
  EXPECT_EQ(counted([&] { cpu::activate(Activation::relu, x.data(), y.data(), kRows, kCols, {}); }),
            (Work{0, 2 * kAll}));
  EXPECT_EQ(counted([&] { cpu::column_sums(x.data(), kRows, kCols, kCols, gain.data(), Accumulate::no); }),
            (Work{0, kAll + kCols}));
  EXPECT_EQ(counted([&] {
              cpu::norm_forward({.x = x.data(),
                                 .residual = y.data(),
                                 .weight = gain.data(),
                                 .bias = shift.data(),
                                 .rows = kRows,
                                 .cols = kCols},
                                {.y = z.data(), .mean = mean.data(), .rstd = dev.data()});
            }),
            (Work{0, 3 * kAll}));
  const std::vector<int32_t> ids{2, 0, 1};
  EXPECT_EQ(counted([&] {
              cpu::embedding_forward({.table = {.data = x.data(), .rows = kRows, .cols = kCols},
                                      .ids = ids.data(),
                                      .tokens = kRows,
                                      .cols = kCols,
                                      .y = y.data()});
            }),
            (Work{0, 2 * kAll}));
  EXPECT_EQ(counted([&] { cpu::softmax(x.data(), y.data(), kRows, kCols); }), (Work{0, 2 * kAll}));
  const Tensor value = Tensor::full({kAll}, 1), first = Tensor::full({kAll}, 0.1f);
  std::vector<OptimizerSlot> slots{{.value = value,
                                    .gradient = Tensor::full({kAll}, 0.5f),
                                    .state = {first, Tensor::full({kAll}, 0.2f)},
                                    .learning_rate = 1e-3f}};
  EXPECT_EQ(counted([&] { adam({}, {}, slots); }), (Work{0, 7 * kAll}));
  EXPECT_EQ(counted([&] { adagrad({}, {}, slots); }), (Work{0, 7 * kAll}));
}

TEST(Limits, AreThoseOfARealMachine) {
  const int before = threads();
  set_threads(2);
  const MachineLimits limits = measure_limits();
  set_threads(before);
  EXPECT_EQ(limits.threads, 2);
  // Sanity bounds: one float per nanosecond was reached in 1995; 100 TFLOP/s per core is not reached yet.
  EXPECT_GT(peak_gflops(), 1);
  EXPECT_LT(peak_gflops(), 1e5);
  EXPECT_GT(limits.gflops, 1);
  EXPECT_GT(limits.read_gb_per_s, 0.1);
  EXPECT_GT(limits.triad_gb_per_s, 0.1);
  EXPECT_GE(limits.bandwidth(), limits.read_gb_per_s);
  EXPECT_GE(limits.bandwidth(), limits.triad_gb_per_s);
  EXPECT_FALSE(instructions().empty());
  EXPECT_FALSE(processor_name().empty());
}

}  // namespace
}  // namespace qkv::kernels

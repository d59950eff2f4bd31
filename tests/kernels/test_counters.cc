// The same counts on every device.
#include "qkv/kernels/counters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include "qkv/kernels/attention.h"
#include "qkv/kernels/embedding.h"
#include "qkv/kernels/key_value_cache.h"
#include "qkv/kernels/loss.h"
#include "qkv/kernels/matmul.h"
#include "qkv/kernels/norm.h"
#include "qkv/kernels/optimizer.h"
#include "qkv/kernels/pointwise.h"
#include "tests/support/devices.h"

namespace qkv::kernels {
namespace {

struct Work {
  uint64_t macs, bytes;
  friend bool operator==(const Work&, const Work&) = default;
};

std::ostream& operator<<(std::ostream& out, const Work& work) {
  return out << work.macs << " multiplications, " << work.bytes << " bytes";
}

template <class Call>
Work counted(const Call& call) {
  const uint64_t macs = counted_macs(), bytes = counted_bytes();
  call();
  return {counted_macs() - macs, counted_bytes() - bytes};
}

// Multiplications, and elements of f32.
Work work(uint64_t macs, uint64_t elements) { return {macs, elements * sizeof(float)}; }

class Counters : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!testing::has_backend(GetParam())) GTEST_SKIP() << "needs the backend";
  }
  Tensor full(const Shape& shape, float value = 0.5f) const { return Tensor::full(shape, value, GetParam()); }
  Tensor rounded(const Shape& shape, DType dtype) const {
    Tensor zeros = Tensor::empty(shape, dtype);
    zeros.fill_zero();
    return from_host(zeros, GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Counters, ::testing::ValuesIn(kDevices),
                         [](const auto& device) { return std::string(name_of(device.param)); });

// 7 x 5 times 5 x 3.
TEST_P(Counters, CountProductsReadsAndWrites) {
  const Tensor a = full({7, 5});
  Tensor w = full({3, 5}), c = full({7, 3});
  PackedMatrix packed;
  EXPECT_EQ(counted([&] { packed = PackedMatrix::transposed(std::span(&w, 1)); }), work(0, 30));
  EXPECT_EQ(counted([&] { matmul(a, packed, {}, c, Accumulate::no); }), work(105, 35 + 15 + 21));
  EXPECT_EQ(counted([&] { matmul(a, packed, {}, c, Accumulate::yes); }), work(105, 35 + 15 + 2 * 21));
  EXPECT_EQ(counted([&] { matmul_transposed_a(c, a, w, Accumulate::yes); }), work(105, 21 + 35 + 2 * 15));
}

TEST_P(Counters, CountWeightBytesByDType) {
  const Tensor a = full({5, 8});
  Tensor c = full({5, 12});
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const QuantizedTensor w{rounded({12, 8}, dtype), dtype == DType::i8 ? full({12}) : Tensor()};
    const WeightView view({&w, 1});
    EXPECT_EQ(counted([&] { matmul(a, view, {}, c, Accumulate::no); }),
              (Work{5 * 8 * 12, 4 * (5 * 8 + 5 * 12) + bytes_of(dtype, 8 * 12)}))
        << name_of(dtype);
  }
}

// Two sequences, of 3 queries and 4 keys and of none and 5: the second one's keys are never read.
TEST_P(Counters, SkipKeysWithoutQueries) {
  const AttentionTensors arguments{.query = full({3, 16}),
                                   .key = full({9, 16}),
                                   .value = full({9, 32}),
                                   .query_offsets = Offsets({0, 3, 3}),
                                   .key_offsets = Offsets({0, 4, 9}),
                                   .rule = {.heads = 2, .key_heads = 2}};
  AttentionResultTensors results{.output = full({3, 32}), .log_sum_exp = full({2, 3})};
  EXPECT_EQ(counted([&] { attention_forward(arguments, results); }),
            work(2 * 12 * (8 + 16), 3 * 16 + 4 * 16 + 4 * 32 + 3 * 32));
}

TEST_P(Counters, CountCausalPairsOnly) {
  const auto macs = [&](bool causal, bool backward) {
    const AttentionTensors arguments{.query = full({7, 24}),
                                     .key = full({8, 24}),
                                     .value = full({8, 15}),
                                     .query_offsets = Offsets({0, 4, 7}),
                                     .key_offsets = Offsets({0, 6, 8}),
                                     .rule = {.heads = 3, .key_heads = 3, .causal = causal}};
    Tensor output = full({7, 15}), log_sum_exp = full({3, 7});
    const Work forward =
        counted([&] { attention_forward(arguments, {.output = output, .log_sum_exp = log_sum_exp}); });
    if (!backward) return forward.macs;
    AttentionGradientTensors gradients{.query = {.tensor = full({7, 24})},
                                       .key = {.tensor = full({8, 24})},
                                       .value = {.tensor = full({8, 15})}};
    return counted([&] {
             attention_backward(arguments, output, log_sum_exp, full({7, 15}), gradients);
           })
        .macs;
  };
  EXPECT_EQ(macs(false, false), 3u * 13 * (4 * 6 + 3 * 2));
  EXPECT_EQ(macs(true, false), 3u * 13 * ((3 + 4 + 5 + 6) + (1 + 2)));
  EXPECT_EQ(macs(true, true), 2 * 3u * 13 * ((3 + 4 + 5 + 6) + (1 + 2)));
}

// Counted by the visible keys of each query.
TEST_P(Counters, CountPairsWithinTheWindow) {
  for (const auto alignment : {Alignment::last_key, Alignment::first_key}) {
    for (const auto& [queries, keys] : {std::pair{7, 7}, {3, 9}, {9, 3}, {1, 6}}) {
      for (const auto& [window, causal] : {std::pair{0, true},
                                           {1, true},
                                           {2, true},
                                           {5, true},
                                           {50, true},
                                           {0, false},
                                           {1, false},
                                           {3, false},
                                           {50, false}}) {
        const AttentionTensors arguments{
            .query = full({queries, 2}),
            .key = full({keys, 2}),
            .value = full({keys, 3}),
            .query_offsets = Offsets({0, queries}),
            .key_offsets = Offsets({0, keys}),
            .rule = {.causal = causal, .alignment = alignment, .window = window}};
        uint64_t pairs = 0;
        for (int i = 0; i < queries; ++i) {
          const int place = i + (alignment == Alignment::last_key ? keys - queries : 0);
          for (int j = 0; j < keys; ++j)
            pairs += (!causal || j <= place) && (window == 0 || std::abs(j - place) < window) ? 1 : 0;
        }
        const AttentionResultTensors results{.output = full({queries, 3}), .log_sum_exp = full({1, queries})};
        EXPECT_EQ(counted([&] { attention_forward(arguments, results); }).macs, pairs * 5)
            << queries << " queries, " << keys << " keys, window " << window << ", causal " << causal;
      }
    }
  }
}

TEST_P(Counters, CountWantedGradientsOnly) {
  const AttentionTensors arguments{.query = full({4, 2}),
                                   .key = full({4, 2}),
                                   .value = full({4, 3}),
                                   .query_offsets = Offsets({0, 4}),
                                   .key_offsets = Offsets({0, 4})};
  const Tensor output = full({4, 3}), log_sum_exp = full({1, 4});
  const auto macs = [&](const AttentionGradientTensors& wanted) {
    return counted([&] { attention_backward(arguments, output, log_sum_exp, full({4, 3}), wanted); }).macs;
  };
  EXPECT_EQ(macs({.query = {full({4, 2})}, .key = {full({4, 2})}, .value = {full({4, 3})}}), 16u * 10);
  EXPECT_EQ(macs({.query = {full({4, 2})}}), 16u * (2 + 3));
  EXPECT_EQ(macs({.value = {full({4, 3})}}), 16u * (3 + 3));
}

// Rows of 5, 0 and 7 positions.
TEST_P(Counters, CountCacheBytesByDType) {
  constexpr int64_t kHeads = 3, kKeyHeads = 1, kKey = 8, kValue = 4;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor memory = rounded({7, kKeyHeads * (kKey + kValue)}, dtype);
    CacheBlockTable table;
    table.append(memory);
    const std::vector<int32_t> numbers{0, 1, 2, 3, 4, 5, 6};
    std::vector<CacheRow> rows;
    for (const size_t length : {5, 0, 7}) rows.push_back({table.blocks(), std::span(numbers).first(length)});
    CachedAttentionTensors step;
    step.query = full({3, kHeads * kKey});
    step.rows = rows;
    step.d_k = kKey;
    step.d_v = kValue;
    step.rule.heads = kHeads;
    step.rule.key_heads = kKeyHeads;
    step.dtype = dtype;
    step.output = full({3, kHeads * kValue});
    EXPECT_EQ(counted([&] { attention_cached(step); }),
              (Work{12 * 3 * 12, 4 * 3 * 3 * 12 + bytes_of(dtype, 12 * 12)}))
        << name_of(dtype);
  }
}

TEST_P(Counters, CountReadsAndWritesOfRowKernels) {
  constexpr int64_t kRows = 3, kCols = 20, kAll = kRows * kCols;
  const Tensor x = full({kRows, kCols}), bias = full({kCols});
  Tensor y = full({kRows, kCols}), z = full({kRows, kCols}), weight = full({kCols});
  EXPECT_EQ(counted([&] { scale(x, 2, y, Accumulate::yes); }), work(0, 3 * kAll));
  EXPECT_EQ(counted([&] { add(x, y, z); }), work(0, 3 * kAll));
  EXPECT_EQ(counted([&] { activate(Activation::relu, x, {}, y); }), work(0, 2 * kAll));
  EXPECT_EQ(counted([&] { column_sums(x, {.tensor = weight}); }), work(0, kAll + kCols));
  EXPECT_EQ(counted([&] {
              norm_forward({.x = x,
                            .residual = y,
                            .weight = weight,
                            .bias = bias,
                            .y = z,
                            .mean = full({kRows}),
                            .rstd = full({kRows})});
            }),
            work(0, 3 * kAll));
  const Tensor ids = from_host(Tensor::from(std::vector<int32_t>{2, 0, 1}, {3}), GetParam());
  EXPECT_EQ(counted([&] { embedding_forward({.table = x, .ids = ids, .y = y}); }), work(0, 2 * kAll));
  EXPECT_EQ(counted([&] { softmax(x, y); }), work(0, 2 * kAll));
  std::vector<OptimizerSlot> slots{{.value = full({kAll}),
                                    .gradient = full({kAll}),
                                    .state = {full({kAll}), full({kAll})},
                                    .learning_rate = 1e-3f}};
  EXPECT_EQ(counted([&] { adam({}, {}, slots); }), work(0, 7 * kAll));
  EXPECT_EQ(counted([&] { adagrad({}, {}, slots); }), work(0, 7 * kAll));
}

}  // namespace
}  // namespace qkv::kernels

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels {
namespace {

// Rows of a decoder, whose positions are in one table in random order and partly shared.
struct Case {
  Case(int64_t rows, int64_t head_count, int64_t key_size, int64_t value_size,
       std::vector<int32_t> row_lengths, float spread = 1, int64_t sharing = 1)
      : heads(head_count),
        key_heads(head_count / sharing),
        d_k(key_size),
        d_v(value_size),
        lengths(std::move(row_lengths)) {
    RandomStream random(7, static_cast<uint64_t>(rows * 1000 + d_k * 10 + d_v));
    const auto number = [&] { return spread * (2 * random.uniform() - 1); };
    query.resize(static_cast<size_t>(rows * heads * d_k));
    for (float& x : query) x = number();
    int64_t positions = 0;
    for (const int32_t length : lengths) positions += length;
    cache = Tensor::empty({positions, key_heads * (d_k + d_v)});
    for (float& x : cache.values()) x = number();
    table.append(cache);
    numbers.resize(static_cast<size_t>(rows));
    for (size_t r = 0; r < numbers.size(); ++r) {
      for (int32_t j = 0; j < lengths[r]; ++j)
        numbers[r].push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(positions))));
    }
  }

  // weights: optional output, [heads, length] of each row.
  std::vector<float> run(size_t first, size_t count,
                         std::vector<std::vector<float>>* weights = nullptr) const {
    std::vector<int64_t> offsets;
    int64_t total = 0;
    std::vector<CacheRow> rows;
    for (size_t r = first; r < first + count; ++r) {
      rows.push_back({(dtype == DType::bf16 ? half_table : table).blocks(), numbers[r]});
      offsets.push_back(std::exchange(total, total + heads * lengths[r]));
    }
    std::vector<float> all(static_cast<size_t>(total), -7.0f);
    std::vector<float> output(count * static_cast<size_t>(heads * d_v), -7.0f);
    cpu::attention_cached(
        {.rows = rows,
         .heads = heads,
         .key_heads = key_heads,
         .d_k = d_k,
         .d_v = d_v,
         .scale = scale,
         .softcap = softcap,
         .query = query.data() + first * static_cast<size_t>(heads * d_k),
         .query_stride = heads * d_k,
         .dtype = dtype,
         .alibi_slopes = slopes.empty() ? nullptr : slopes.data(),
         .relative = relative.empty() ? RelativeBias{} : RelativeBias{relative.data(), 91, 90},
         .output = output.data(),
         .output_stride = heads * d_v,
         .weight_offsets = offsets.data(),
         .weights = weights == nullptr ? nullptr : all.data()});
    for (size_t r = 0; weights != nullptr && r < count; ++r)
      weights->emplace_back(all.begin() + offsets[r], all.begin() + offsets[r] + heads * lengths[first + r]);
    return output;
  }

  // Stores the positions as bf16, and rounds the f32 ones likewise.
  void keep_as_bf16() {
    Tensor half = Tensor::empty(cache.shape(), DType::bf16);
    cpu::round_to_bf16(cache.data(), half.data<BFloat16>(), cache.numel());
    half_table.append(half);
    cpu::widen_rows({.data = half.data<BFloat16>(), .dtype = DType::bf16, .rows = 1, .cols = cache.numel()},
                    cache.data());
  }

  const float* entry(size_t row, size_t position) const {
    return cache.data() + numbers[row][position] * cache.cols();
  }

  // In double precision.
  double expected(size_t row, int64_t head, int64_t column) const {
    std::vector<double> scores;
    for (size_t j = 0; j < numbers[row].size(); ++j) {
      double score = 0;
      for (int64_t i = 0; i < d_k; ++i) {
        score += static_cast<double>(
                     query[row * static_cast<size_t>(heads * d_k) + static_cast<size_t>(head * d_k + i)]) *
                 static_cast<double>(entry(row, j)[head * key_heads / heads * d_k + i]);
      }
      score *= static_cast<double>(scale);
      scores.push_back(softcap == 0 ? score : softcap * std::tanh(score / static_cast<double>(softcap)));
    }
    if (scores.empty()) return 0;
    for (size_t j = 0; j < scores.size(); ++j) {
      const size_t before = scores.size() - 1 - j, h = static_cast<size_t>(head);
      if (!slopes.empty()) scores[j] -= static_cast<double>(slopes[h]) * static_cast<double>(before);
      if (!relative.empty()) scores[j] += static_cast<double>(relative[h * 91 + 90 - before]);
    }
    const double largest = *std::ranges::max_element(scores);
    double sum = 0, mixed = 0;
    for (size_t j = 0; j < scores.size(); ++j) {
      const double weight = std::exp(scores[j] - largest);
      sum += weight;
      mixed += weight *
               static_cast<double>(entry(row, j)[key_heads * d_k + head * key_heads / heads * d_v + column]);
    }
    return mixed / sum;
  }

  int64_t heads, key_heads, d_k, d_v;
  float scale = 0.4f, softcap = 0;
  std::vector<int32_t> lengths;
  std::vector<float> query;
  std::vector<float> slopes, relative;  // relative: [heads, 91], of up to 90 positions before
  Tensor cache;                         // [positions, key_heads * (d_k + d_v)]
  std::vector<std::vector<int32_t>> numbers;
  DType dtype = DType::f32;  // of the tested positions
  CacheBlockTable table, half_table;
};

void expect_right(const Case& one, double tolerance) {
  const std::vector<float> found = one.run(0, one.lengths.size());
  size_t i = 0;
  for (size_t row = 0; row < one.lengths.size(); ++row) {
    for (int64_t head = 0; head < one.heads; ++head) {
      for (int64_t column = 0; column < one.d_v; ++column, ++i) {
        ASSERT_NEAR(found[i], one.expected(row, head, column), tolerance)
            << "row " << row << " of " << one.lengths[row] << " positions, head " << head;
      }
    }
  }
}

TEST(CachedAttention, EveryLengthAndWidth) {
  std::vector<int32_t> lengths;
  for (int32_t length = 0; length <= 130; ++length) lengths.push_back(length);
  expect_right(Case(131, 2, 16, 16, lengths), 2e-6);
  for (const int64_t d : {1, 3, 15, 17, 31, 64, 65, 80, 128, 200})
    expect_right(Case(5, 3, d, 1 + (d * 7) % 140, {1, 2, 33, 70, 5}), 2e-6);
}

TEST(CachedAttention, ReadsBf16Entries) {
  for (const int64_t d : {1, 7, 16, 40, 64}) {
    Case one(4, 6, d, d + 3, {9, 40, 0, 77}, 1, 3);
    one.keep_as_bf16();
    const std::vector<float> wide = one.run(0, 4);
    one.dtype = DType::bf16;
    EXPECT_EQ(one.run(0, 4), wide);
    // A key head's entries are widened for three heads, two and one, or one.
    const int before = threads();
    for (const int count : {1, 4, 16}) {
      set_threads(count);
      EXPECT_EQ(one.run(0, 4), wide) << count << " threads";
      EXPECT_TRUE(std::ranges::equal(one.run(0, 1), std::span(wide).first(wide.size() / 4))) << count;
    }
    set_threads(before);
    expect_right(one, 2e-6);
  }
}

TEST(CachedAttention, StoresAndLoadsEntries) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    constexpr int64_t kKeys = 5, kValues = 9, kCount = 7;
    std::vector<float> keys(kCount * 11), values(kCount * 13), loaded(kCount * (kKeys + kValues));
    RandomStream random(5);
    for (auto* numbers : {&keys, &values}) {
      for (float& x : *numbers) x = random.uniform() - 0.5f;
    }
    CacheBlockTable table;
    table.append(Tensor::empty({16, kKeys + kValues}, dtype));
    table.append(Tensor::empty({3, kKeys + kValues}, dtype));
    const std::vector<int32_t> first{3, 17, 0}, second{18, 16, 15, 1};  // 7 positions
    const std::vector<CacheRow> rows{{table.blocks(), first}, {table.blocks(), second}};
    cpu::store_cached({.key_width = kKeys,
                       .value_width = kValues,
                       .keys = keys.data(),
                       .values = values.data(),
                       .key_stride = 11,
                       .value_stride = 13,
                       .dtype = dtype,
                       .to = rows});
    cpu::load_cached({.width = kKeys + kValues, .dtype = dtype, .from = rows, .to = loaded.data()});
    for (int64_t i = 0; i < kCount; ++i) {
      for (int64_t c = 0; c < kKeys + kValues; ++c) {
        const float expected = c < kKeys ? keys[static_cast<size_t>(i * 11 + c)]
                                         : values[static_cast<size_t>(i * 13 + c - kKeys)];
        const float found = loaded[static_cast<size_t>(i * (kKeys + kValues) + c)];
        EXPECT_NEAR(found, expected, dtype == DType::f32 ? 0 : std::abs(expected) / 256);
      }
    }
  }
}

TEST(CachedAttention, GroupedHeads) {
  expect_right(Case(4, 6, 16, 24, {9, 40, 1, 77}, 1, 3), 2e-6);
  expect_right(Case(4, 4, 64, 64, {9, 40, 1, 77}, 1, 4), 2e-6);
}

TEST(CachedAttention, DistanceBiases) {
  Case one(4, 3, 16, 24, {9, 40, 1, 91});
  one.slopes = {0.3f, 0.0f, 0.02f};
  expect_right(one, 2e-6);
  RandomStream random(3);
  for (int i = 0; i < 3 * 91; ++i) one.relative.push_back(2 * random.uniform() - 1);
  expect_right(one, 2e-6);
  one.slopes.clear();
  expect_right(one, 2e-6);
}

TEST(CachedAttention, CapsScoresBeforeDistances) {
  Case one(4, 3, 16, 24, {9, 40, 1, 91}, 3);
  one.slopes = {0.3f, 0.0f, 0.02f};
  one.softcap = 2.5f;
  expect_right(one, 6e-6);
}

TEST(CachedAttention, ReturnsTheWeights) {
  const Case one(5, 4, 16, 5, {9, 0, 1, 77, 130}, 1, 2);
  std::vector<std::vector<float>> weights;
  const std::vector<float> found = one.run(0, 5, &weights);
  EXPECT_EQ(found, one.run(0, 5)) << "capturing the weights changes nothing";
  for (size_t row = 0; row < 5; ++row) {
    const auto count = static_cast<size_t>(one.lengths[row]);
    for (size_t head = 0; count > 0 && head < 4; ++head) {
      const std::span<const float> own = std::span(weights[row]).subspan(head * count, count);
      double sum = 0;
      std::vector<double> mixed(5);
      for (size_t j = 0; j < count; ++j) {
        sum += static_cast<double>(own[j]);
        const float* values = one.entry(row, j) + 2 * 16 + head / 2 * 5;
        for (size_t i = 0; i < 5; ++i)
          mixed[i] += static_cast<double>(own[j]) * static_cast<double>(values[i]);
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(mixed[i], found[row * 20 + head * 5 + i], 1e-6);
    }
  }
}

TEST(CachedAttention, LargeAndTinyScores) {
  expect_right(Case(3, 2, 64, 64, {40, 41, 50}, 30), 2e-3);  // scores of thousands; values up to 30
  expect_right(Case(3, 2, 64, 64, {40, 41, 50}, 1e-12f), 1e-17);
}

TEST(CachedAttention, RowsAreIndependentAndThreadInvariant) {
  const Case one(40, 4, 64, 64, std::vector<int32_t>(40, 90));
  const int before = threads();
  set_threads(1);
  const std::vector<float> expected = one.run(0, 40);
  for (const int count : {1, 2, 3, 4}) {
    set_threads(count);
    EXPECT_EQ(one.run(0, 40), expected);
    for (const size_t row : {size_t{0}, size_t{17}, size_t{39}}) {
      const std::vector<float> alone = one.run(row, 1);
      EXPECT_TRUE(std::ranges::equal(alone, std::span(expected).subspan(row * alone.size(), alone.size())));
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace qkv::kernels

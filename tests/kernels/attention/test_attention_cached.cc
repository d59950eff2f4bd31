#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
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
      rows.push_back({(dtype == DType::f32 ? table : rounded_table).blocks(), numbers[r]});
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

  // Stores the positions in another dtype, and rounds the f32 ones likewise.
  void keep_as(DType other) {
    rounded_table.append(Tensor::empty(cache.shape(), other));
    std::vector<int32_t> all(static_cast<size_t>(cache.rows()));
    std::iota(all.begin(), all.end(), 0);
    const CacheRow row{rounded_table.blocks(), all};
    const int64_t keys = key_heads * d_k;
    cpu::store_cached({.key_width = keys,
                       .value_width = cache.cols() - keys,
                       .keys = cache.data(),
                       .values = cache.data() + keys,
                       .key_stride = cache.cols(),
                       .value_stride = cache.cols(),
                       .dtype = other,
                       .to = {&row, 1}});
    cpu::load_cached({.width = cache.cols(), .dtype = other, .from = {&row, 1}, .to = cache.data()});
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
  CacheBlockTable table, rounded_table;
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

TEST(CachedAttention, ReadsRoundedEntries) {
  const auto expect_same_bits = [](DType dtype, int64_t d_k, int64_t d_v) {
    Case one(4, 6, d_k, d_v, {9, 40, 0, 277}, 1, 3);
    one.keep_as(dtype);
    const std::vector<float> wide = one.run(0, 4);
    one.dtype = dtype;
    EXPECT_EQ(one.run(0, 4), wide) << name_of(dtype) << " " << d_k;
    // A key head's entries are widened for three heads, two and one, or one.
    const int before = threads();
    for (const int count : {1, 4, 16}) {
      set_threads(count);
      EXPECT_EQ(one.run(0, 4), wide) << count << " threads";
      EXPECT_TRUE(std::ranges::equal(one.run(0, 1), std::span(wide).first(wide.size() / 4))) << count;
    }
    set_threads(before);
    expect_right(one, 2e-6);
  };
  for (const int64_t d : {1, 7, 16, 40, 64}) expect_same_bits(DType::bf16, d, d + 3);
  for (const int64_t d : {16, 32, 48, 128}) expect_same_bits(DType::q8_0, d, d + 16);  // two key heads
}

// A number is at most half a step of its block away, and what has no 8 bits is NaN or zero.
TEST(CachedAttention, RoundsToQ8_0) {
  constexpr int64_t kWidth = 64;
  const float tiny = 1e-8f, largest = 65504 * 127.0f;
  std::vector<std::vector<float>> rows(7, std::vector<float>(kWidth));
  RandomStream random(3);
  for (std::vector<float>& row : rows) {
    for (float& x : row) x = 6 * random.uniform() - 3;
  }
  rows[1][40] = NAN;
  rows[2][3] = -HUGE_VALF;
  rows[3][3] = 2 * largest;  // its scale is beyond f16
  std::fill_n(rows[4].begin(), 32, tiny);
  std::fill_n(rows[5].begin(), 32, 0.0f);
  rows[6][0] = 1.9e-5f * 127;  // a scale with few bits: 127 steps do not reach the number
  std::fill_n(rows[6].begin() + 1, 31, 0.0f);
  CacheBlockTable table;
  table.append(Tensor::empty({16, 2 * kWidth}, DType::q8_0));
  for (const std::vector<float>& row : rows) {
    const std::vector<int32_t> number{5};
    const CacheRow to{table.blocks(), number};
    cpu::store_cached({.key_width = kWidth,
                       .value_width = kWidth,
                       .keys = row.data(),
                       .values = row.data(),
                       .dtype = DType::q8_0,
                       .to = {&to, 1}});
    std::vector<float> loaded(2 * kWidth);
    cpu::load_cached({.width = 2 * kWidth, .dtype = DType::q8_0, .from = {&to, 1}, .to = loaded.data()});
    EXPECT_EQ(std::memcmp(loaded.data(), loaded.data() + kWidth, kWidth * sizeof(float)), 0);
    for (size_t block = 0; block < 64; block += 32) {
      const auto own = std::span(row).subspan(block, 32);
      float most = 0;
      bool finite = true;
      for (const float x : own) {
        most = std::max(most, std::abs(x));
        finite = finite && std::isfinite(x) && std::abs(x) <= largest;
      }
      for (size_t i = block; i < block + 32; ++i) {
        if (finite) {  // the scale's f16 is up to 2^-11 or, if subnormal, 2^-25 away: 127 steps end so much
                       // earlier
          EXPECT_LE(std::abs(loaded[i] - row[i]), most / 254 * 1.13f + 3e-8f * 127) << row[i];
        } else {
          EXPECT_TRUE(std::isnan(loaded[i])) << row[i];
        }
      }
    }
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

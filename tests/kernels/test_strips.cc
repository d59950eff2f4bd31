// Products in strips of columns: to the bit, on any machine.

#include <gtest/gtest.h>

#include <bit>

#include "qkv/kernels/cpu/products/strip_product.h"
#include "qkv/kernels/cpu/products/strips.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

// Whether a multiply-add of the instructions under test rounds the product as well.
bool rounds_twice() { return (hwy::SupportedTargets() & (HWY_SCALAR | HWY_EMU128 | HWY_SSE4)) != 0; }

bool equal(float found, float expected) {
  if (rounds_twice()) return std::abs(found - expected) < 2e-5f;
  return std::bit_cast<uint32_t>(found) == std::bit_cast<uint32_t>(expected);
}

// The sum over [first, end) of left(i) * right(i), one multiply-add after the other.
template <class Left, class Right>
float chain(int64_t first, int64_t end, const Left& left, const Right& right) {
  float sum = 0;
  for (int64_t i = first; i < end; ++i) sum = std::fma(left(i), right(i), sum);
  return sum;
}

// Likewise, in blocks whose sums are added in order to `before`.
template <class Left, class Right>
float chains(int64_t depth, float before, const Left& left, const Right& right) {
  for (int64_t first = 0; first < depth; first += kStripDepth)
    before += chain(first, std::min(first + kStripDepth, depth), left, right);
  return before;
}

TEST(StripProduct, IsOneChainOfMultiplyAdds) {
  const Numbers b(70 * kStripCols, 2), bias(kStripCols, 3);
  for_each_target([&] {
    for (const int64_t depth : {1, 5, 70}) {
      for (int64_t rows = 1; rows <= 2 * kStripRows + 1; ++rows) {
        const int64_t stride = depth + 3, group = depth * kStripRows + 5;
        const Numbers a(rows * stride, 1);
        std::vector<float> groups(static_cast<size_t>(3 * group));
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < depth; ++i)
            groups[row / kStripRows * group + i * kStripRows + row % kStripRows] = a[row * stride + i];
        }
        for (int64_t cols = 1; cols <= kStripCols; ++cols) {
          for (const bool grouped : {false, true}) {
            const bool add = (rows + cols) % 2 == 0, biased = cols % 3 == 0;
            // `cols` of 17 columns.
            Numbers c(rows * 17 - (17 - cols), 4);
            multiply_strip({.a = grouped ? groups.data() : a.data(),
                            .a_stride = grouped ? group : stride,
                            .grouped = grouped,
                            .b = b.data(),
                            .rows = rows,
                            .cols = cols,
                            .depth = depth,
                            .bias = biased ? bias.data() : nullptr,
                            .add = add,
                            .c = c.data(),
                            .c_stride = 17});
            for (int64_t i = 0; i < c.size(); ++i) {
              const int64_t row = i / 17, col = i % 17;
              if (col >= cols) {
                ASSERT_EQ(c[i], c.before(i)) << rows << " x " << cols << ", past the row";
                continue;
              }
              float sum = chain(
                  0, depth, [&](int64_t k) { return a[row * stride + k]; },
                  [&](int64_t k) { return b[k * kStripCols + col]; });
              if (biased) sum += bias[col];
              ASSERT_TRUE(equal(c[i], add ? c.before(i) + sum : sum))
                  << depth << " deep, " << rows << " x " << cols << " at " << row << ", " << col;
            }
            ASSERT_TRUE(c.surroundings_untouched());
          }
        }
      }
    }
  });
}

struct Size {
  int64_t m, k, n;
};

// A right-hand side [k, n] in strips.
cpu::PackedMatrix::Impl in_strips(const Numbers& b, int64_t k, int64_t n) {
  cpu::PackedMatrix::Impl packed;
  packed.rows = k;
  packed.cols = n;
  packed.layout = PackLayout::strips;
  const int64_t numbers = k * round_up(n, kStripCols);
  packed.blocks.push_back({0, n, allocate(static_cast<size_t>(numbers) * sizeof(float))});
  auto* const data = reinterpret_cast<float*>(packed.blocks[0].data.get());
  std::fill_n(data, numbers, 0.0f);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j)
      data[j / kStripCols * kStripCols * k + i * kStripCols + j % kStripCols] = b[i * n + j];
  }
  return packed;
}

TEST(Strips, AddBlocksOfTheInnerDimensionInOrder) {
  for_each_target([] {
    for (const auto& [m, k, n] : std::vector<Size>{
             {1, 1, 1}, {7, 30, 17}, {40, 257, 70}, {133, 256, 40}, {140, 600, 33}, {5, 40, 300}}) {
      const Numbers a(m * (k + 3), 1), b(k * n, 2), bias(n, 3);
      const auto packed = in_strips(b, k, n);
      for (const auto accumulate : {Accumulate::no, Accumulate::yes}) {
        Numbers c(m * n, 4);
        multiply_strips({a.data(), m, k, k + 3}, packed, bias.data(), {c.data(), m, n, n}, accumulate);
        for (int64_t i = 0; i < m * n; ++i) {
          const auto left = [&](int64_t l) { return a[i / n * (k + 3) + l]; };
          const auto right = [&](int64_t l) { return b[l * n + i % n]; };
          // The bias is added to the first block's sum, then this to what was there.
          float expected = chain(0, std::min(k, kStripDepth), left, right) + bias[i % n];
          if (accumulate == Accumulate::yes) expected += c.before(i);
          expected = chains(
              k - std::min(k, kStripDepth), expected, [&](int64_t l) { return left(l + kStripDepth); },
              [&](int64_t l) { return right(l + kStripDepth); });
          ASSERT_TRUE(equal(c[i], expected)) << m << " x " << k << " x " << n << " at " << i;
        }
        ASSERT_TRUE(c.surroundings_untouched());
      }
    }
  });
}

TEST(Strips, GradientsAddBlocksOfRowsInOrder) {
  const auto read = [](float number, DType operands) {
    if (operands == DType::f32) return number;
    const auto bits = std::bit_cast<uint32_t>(number);
    return std::bit_cast<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
  };
  for_each_target([&] {
    for (const auto& [rows, m, n] : std::vector<Size>{
             {1, 1, 1}, {9, 7, 17}, {257, 40, 20}, {256, 133, 40}, {600, 140, 33}, {40, 5, 300}}) {
      const Numbers a(rows * (m + 3), 1), b(rows * (n + 2), 2);
      for (const DType operands : {DType::f32, DType::bf16}) {
        for (const auto accumulate : {Accumulate::no, Accumulate::yes}) {
          Numbers c(m * n, 4);
          multiply_transposed_in_strips({a.data(), rows, m, m + 3}, {b.data(), rows, n, n + 2},
                                        {c.data(), m, n, n}, accumulate, operands);
          for (int64_t i = 0; i < m * n; ++i) {
            const float expected = chains(
                rows, accumulate == Accumulate::yes ? c.before(i) : 0.0f,
                [&](int64_t l) { return read(a[l * (m + 3) + i / n], operands); },
                [&](int64_t l) { return read(b[l * (n + 2) + i % n], operands); });
            ASSERT_TRUE(equal(c[i], expected)) << rows << " rows, " << m << " x " << n << " at " << i;
          }
          ASSERT_TRUE(c.surroundings_untouched());
        }
      }
    }
  });
}

}  // namespace
}  // namespace qkv::kernels

#include "qkv/kernels/cpu/products/gemm_nt.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/int8_sums.h"
#include "qkv/kernels/cpu/products/quantized_rows.h"
#include "qkv/kernels/cpu/products/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/products/gemm_nt.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/products/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR
template <class D, class V>
HWY_INLINE auto add_halves(D /*d*/, V v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return add_halves(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}
#endif

// to[i] = sum of the lanes of the i-th vector. Always the same tree, so always the same bits.
template <class D, class V>
HWY_INLINE void store_sums_of_lanes(D d, V a, V b, V c, V e, hn::TFromD<D>* to) {
#if HWY_TARGET == HWY_SCALAR
  hn::Store(a, d, to);
  hn::Store(b, d, to + 1);
  hn::Store(c, d, to + 2);
  hn::Store(e, d, to + 3);
#else
  const hn::RepartitionToWide<decltype(hn::RebindToSigned<D>())> wide;
  const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto low = hn::InterleaveLower(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
  const auto high = hn::InterleaveUpper(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
  const auto sums = hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));
  hn::StoreU(add_halves(d, sums), hn::FixedTag<hn::TFromD<D>, 4>(), to);
#endif
}

using Wide = hn::ScalableTag<int16_t>;
using Sums = hn::ScalableTag<int32_t>;

// Some machines add half of a product's lanes to a second sum.
template <int R, int C, class P>
HWY_INLINE void int8_step(const uint8_t* q, int64_t q_stride, const int8_t* const* w, int64_t i, P part,
                          hn::Vec<Sums> (&sum)[R][C], hn::Vec<Sums> (&more)[R][C]) {
  const Wide wide;
  const hn::Rebind<uint8_t, Wide> unsigned_bytes;
  const hn::Rebind<int8_t, Wide> signed_bytes;
  hn::Vec<Wide> left[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) left[r] = hn::PromoteTo(wide, load(unsigned_bytes, q + r * q_stride + i, part));
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const auto right = hn::PromoteTo(wide, load(signed_bytes, w[c] + i, part));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sum[r][c] = hn::ReorderWidenMulAccumulate(Sums(), left[r], right, sum[r][c], more[r][c]);
  }
}

// The portable counterpart of int8_sums_vnni: the sum of two 8-bit products always fits into 32 bits.
// Prefetches the next but one columns, those from c_begin to c_end: the next ones' weights would often come
// too late.
template <int R, int C>
HWY_NOINLINE void int8_tile(const uint8_t* q, int64_t q_stride, const int8_t* const* w, int64_t w_stride,
                            int64_t inner, int64_t c_begin, int64_t c_end, int32_t* sums) {
  const Sums d;
  constexpr int64_t kLine = 64;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  hn::Vec<Sums> sum[R][C], more[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sum[r][c] = more[r][c] = hn::Zero(d);
  }
  int64_t i = 0;
  if (c_begin < c_end) {
    for (; i + kLine <= inner; i += kLine) {
      for (int64_t c = c_begin; c < c_end; ++c) __builtin_prefetch(w[c] + i + 2 * C * w_stride, 0, 2);
      for (int64_t k = i; k < i + kLine; k += lanes) int8_step<R, C>(q, q_stride, w, k, Full{}, sum, more);
    }
  }
  for (; i + lanes <= inner; i += lanes) int8_step<R, C>(q, q_stride, w, i, Full{}, sum, more);
  if (i < inner) int8_step<R, C>(q, q_stride, w, i, Part{static_cast<size_t>(inner - i)}, sum, more);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < C; c += 4) {
      const auto whole = [&](int n) HWY_ATTR { return hn::Add(sum[r][c + n], more[r][c + n]); };
      store_sums_of_lanes(d, whole(0), whole(1), whole(2), whole(3), sums + r * kPartCols + c);
    }
  }
}

void int8_sums(const GemmTile& p, int32_t* sums) {
  constexpr int kCols = 4;
  const auto* const weights = static_cast<const int8_t*>(p.w);
  for (int64_t col = 0; col < p.cols; col += kCols) {
    const int8_t* w[kCols];
    for (int64_t c = 0; c < kCols; ++c) w[c] = weights + std::min(col + c, p.cols - 1) * p.w_stride;
    for (int64_t row = 0; row < p.rows; row += 2) {
      const uint8_t* const q = p.q + row * p.q_stride;
      int32_t* const to = sums + row * kPartCols + col;
      // All rows share the prefetching, so that the memory is never idle.
      const int64_t c_begin = kCols * row / p.rows, c_end = kCols * std::min(row + 2, p.rows) / p.rows;
      if (row + 1 < p.rows) {
        int8_tile<2, kCols>(q, p.q_stride, w, p.w_stride, p.inner, c_begin, c_end, to);
      } else {
        int8_tile<1, kCols>(q, p.q_stride, w, p.w_stride, p.inner, c_begin, c_end, to);
      }
    }
  }
}

// y (+)= (sums - zero * w_sums) * q_scale * w_scale + bias.
void put_int8(const GemmTile& p, const int32_t* sums) {
  const Floats d;
  const hn::RebindToSigned<Floats> whole;
  for (int64_t row = 0; row < p.rows; ++row) {
    const auto zero = hn::Set(whole, p.q_zeros[row]);
    const auto scale = hn::Set(d, p.q_scales[row]);
    float* const y = p.y + row * p.y_stride;
    for_vectors(d, p.cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto shift = hn::Mul(zero, load(whole, p.w_sums + i, part));
      const auto exact = hn::Sub(load(whole, sums + row * kPartCols + i, part), shift);
      const auto bias = p.bias != nullptr ? load(d, p.bias + i, part) : hn::Zero(d);
      auto v = hn::MulAdd(hn::Mul(hn::ConvertTo(d, exact), scale), load(d, p.w_scales + i, part), bias);
      if (p.accumulate) v = hn::Add(load(d, y + i, part), v);
      store(d, v, y + i, part);
    });
  }
}

int32_t sum_of(const int8_t* numbers, int64_t count) {
#if HWY_TARGET == HWY_SCALAR
  return std::accumulate(numbers, numbers + count, int32_t{0});
#else
  const hn::ScalableTag<uint8_t> bytes;
  const hn::Repartition<uint64_t, decltype(bytes)> wide;
  const auto shift = hn::Set(bytes, uint8_t{128});
  auto sum = hn::Zero(wide);  // of the numbers + 128, which fit into unsigned bytes
  for_vectors(bytes, count, [&](auto part, int64_t i) HWY_ATTR {
    const auto v = load(bytes, reinterpret_cast<const uint8_t*>(numbers) + i, part);
    sum = hn::Add(sum, hn::SumsOf8(zero_rest(bytes, hn::Xor(v, shift), part)));
  });
  return static_cast<int32_t>(static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(wide, sum))) - 128 * count);
#endif
}

// Without AVX-512, most L2 caches have 256 or 512 KiB, and should also hold the weights that pass.
int64_t rows_of_float_part() {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
  return kPartRows / 2;
#else
  return kPartRows;
#endif
}

bool multiplies_tiles() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return use_amx();
#else
  return false;
#endif
}

void int8_part(const GemmTile& p) {
  HWY_ALIGN int32_t sums[kSumRows * kPartCols];
  for (int64_t row = 0; row < p.rows; row += kSumRows) {
    GemmTile some = p;
    some.rows = std::min(kSumRows, p.rows - row);
    some.y += row * p.y_stride;
    some.q += row * p.q_stride;
    some.q_scales += row;
    some.q_zeros += row;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    if (p.tiles) {
      int8_sums_amx(some, sums);
    } else if (use_vnni()) {
      int8_sums_vnni(some, sums);
    } else {
      int8_sums(some, sums);
    }
#else
    int8_sums(some, sums);
#endif
    put_int8(some, sums);
  }
}

void run_part(const GemmTile& p) {
  switch (p.dtype) {
    case DType::f32:
      return float_part<float>(p);
    case DType::bf16:
      return float_part<uint16_t>(p);
    default:
      return int8_part(p);
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(run_part);
HWY_EXPORT(sum_of);
HWY_EXPORT(multiplies_tiles);
HWY_EXPORT(rows_of_float_part);

// Products of fewer rows are bound by the reading of weights, whatever the method.
constexpr int64_t kFewestInTiles = 8;

// The minimum work per thread: bytes of weights, or an equal amount of arithmetic.
constexpr int64_t kPieceBytes = 65536;

// Number of parts that a thread takes at a time: enough to outweigh the cost of a call, and then up to
// kMaxParts as long as all threads have several pieces of work.
int64_t parts_at_a_time(const cpu::WeightView::Impl& b, int64_t panels, int64_t rows) {
  constexpr int64_t kMaxParts = 4, kPiecesOfAThread = 8;
  // A part's cost: its weights, and as much again for every four rows.
  const int64_t part_bytes =
      kPartCols * std::max<int64_t>(b.rows, 1) * static_cast<int64_t>(size_of(b.dtype));
  const int64_t least = kPieceBytes / (part_bytes * std::max<int64_t>(1, rows / 4));
  const int64_t parts = panels * static_cast<int64_t>(b.parts.size());
  return std::max<int64_t>({1, least, std::min(kMaxParts, parts / (kPiecesOfAThread * threads()))});
}

std::vector<int32_t> row_sums(const WeightRows& weights) {
  std::vector<int32_t> sums(static_cast<size_t>(weights.rows));
  const auto* const integers = static_cast<const int8_t*>(weights.data);
  const int64_t grain = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(weights.cols, 1));
  parallel_for(weights.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      sums[static_cast<size_t>(row)] =
          HWY_DYNAMIC_DISPATCH(sum_of)(integers + row * weights.stride, weights.cols);
  });
  return sums;
}

}  // namespace

int64_t cpu::WeightView::rows() const { return impl_ ? impl_->rows : 0; }
int64_t cpu::WeightView::cols() const { return impl_ ? impl_->cols : 0; }
DType cpu::WeightView::dtype() const { return impl_ ? impl_->dtype : DType::f32; }

cpu::WeightView::WeightView(std::span<const WeightRows> blocks) {
  Impl whole;
  whole.rows = blocks[0].cols;
  whole.dtype = blocks[0].dtype;
  for (const WeightRows& block : blocks) {
    const int64_t row_bytes = block.stride * static_cast<int64_t>(size_of(block.dtype));
    for (int64_t first = 0; first < block.rows; first += kPartCols) {
      WeightRows part = block;
      part.data = static_cast<const std::byte*>(block.data) + first * row_bytes;
      if (part.scales) part.scales += first;
      part.rows = std::min(kPartCols, block.rows - first);
      whole.parts.push_back({part, whole.cols + first});
    }
    whole.cols += block.rows;
    if (block.dtype == DType::i8) std::ranges::copy(row_sums(block), std::back_inserter(whole.sums));
  }
  impl_ = std::make_shared<const Impl>(std::move(whole));
}

void cpu::matmul(const Matrix& a, const cpu::WeightView& weights, const float* bias, const MutableMatrix& c,
                 Accumulate accumulate) {
  const cpu::WeightView::Impl& b = *weights.impl();
  const bool integers = b.dtype == DType::i8;
  const bool tiles = integers && a.rows >= kFewestInTiles && HWY_DYNAMIC_DISPATCH(multiplies_tiles)();
  const QuantizedRows q = integers ? quantize_inputs(a, tiles) : QuantizedRows();
  const int64_t most_rows = integers ? kPartRows : HWY_DYNAMIC_DISPATCH(rows_of_float_part)();
  const int64_t panels = (a.rows + most_rows - 1) / most_rows, parts = static_cast<int64_t>(b.parts.size());
  // Floats in nearly equal panels; quantized rows may lie in tiles, which panels must not divide.
  const int64_t part_rows = integers ? kPartRows : (a.rows + panels - 1) / std::max<int64_t>(1, panels);
  const auto run = [&](int64_t index, int64_t first) {
    const cpu::WeightView::Impl::Part& columns = b.parts[static_cast<size_t>(index % parts)];
    const WeightRows& w = columns.weights;
    const int64_t row = index / parts * part_rows;
    HWY_DYNAMIC_DISPATCH(run_part)
    ({.rows = std::min(part_rows, a.rows - row),
      .cols = w.rows,
      .inner = w.cols,
      .dtype = w.dtype,
      .w = w.data,
      .w_stride = w.stride,
      .bias = bias ? bias + columns.first_col : nullptr,
      .accumulate = accumulate == Accumulate::yes,
      .y = c.data + row * c.stride + columns.first_col,
      .y_stride = c.stride,
      .x = a.data + row * a.stride,
      .x_stride = a.stride,
      .first = first,
      .scratch = integers ? nullptr : scratch<float>(Scratch::tile, kDepth * kTileCols),
      .q = integers ? q.numbers + row * q.stride : nullptr,
      .tiles = q.tiles,
      .q_stride = q.stride,
      .q_scales = integers ? q.scales + row : nullptr,
      .q_zeros = integers ? q.zeros + row : nullptr,
      .w_scales = w.scales,
      .w_sums = integers ? b.sums.data() + columns.first_col : nullptr});
  };
  // Several parts of the same rows share these in a cache.
  const int64_t depth = integers ? std::max<int64_t>(b.rows, 1) : kDepth;
  parallel_for(panels * parts, parts_at_a_time(b, panels, std::min(part_rows, a.rows)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t first = 0; first == 0 || first < b.rows; first += depth) {
                   for (int64_t index = begin; index < end; ++index) run(index, first);
                 }
               });
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE

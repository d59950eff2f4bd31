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
#include "qkv/tensor/block_dtypes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/products/gemm_nt.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/products/block_panel-inl.h"
#include "qkv/kernels/cpu/products/float_rows-inl.h"
#include "qkv/kernels/cpu/products/int8_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

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

// The layout of int8 inputs for the fastest method.
RowLayout layout_of(int64_t rows) {
  // Products of fewer rows are bound by the reading of weights, whatever the method.
  constexpr int64_t kFewestInPanels = 20;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  constexpr int64_t kFewestInTiles = 8;
  if (rows >= kFewestInTiles && use_amx()) return RowLayout::tiles;
  if (use_vnni()) return RowLayout::bytes;
#endif
  return kHasPanels && rows >= kFewestInPanels ? RowLayout::words : RowLayout::bytes;
}

// How the fastest method packs weights in blocks.
Packing packing_of(DType dtype) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (use_vnni()) return Packing::vnni;
#endif
  return kAddsBytes && encoding_of(dtype).bits <= kMostBits ? Packing::bytes : Packing::words;
}

bool takes_words(DType dtype) { return packing_of(dtype) == Packing::words; }

void int8_sums(const GemmTile& p, int32_t* sums) {
  if (p.q_layout == RowLayout::words) return sums_in_panels(p, sums);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (p.q_layout == RowLayout::tiles) return int8_sums_amx(p, sums);
  if (use_vnni()) return int8_sums_vnni(p, sums);
#endif
  sums_in_place(p, sums);
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
    int8_sums(some, sums);
    put_int8(some, sums);
  }
}

void run_part(const GemmTile& p) {
  switch (p.dtype) {
    case DType::f32:
      return float_part<float>(p);
    case DType::bf16:
      return float_part<BFloat16>(p);
    case DType::f16:
      return float_part<Float16>(p);
    case DType::i8:
      return int8_part(p);
    default:
      return block_part(p, packing_of(p.dtype));
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
HWY_EXPORT(layout_of);
HWY_EXPORT(takes_words);
HWY_EXPORT(rows_of_float_part);

// At most as many rows of inputs stay in the L2 cache, whatever the inner dimension.
constexpr int64_t kFewRows = 16;

// The minimum work per thread: bytes of weights, or an equal amount of arithmetic.
constexpr int64_t kPieceBytes = 65536;

// Number of parts that a thread takes at a time: enough to outweigh the cost of a call, and then up to
// kMaxParts as long as all threads have several pieces of work.
int64_t parts_at_a_time(const cpu::WeightView::Impl& b, int64_t panels, int64_t rows) {
  constexpr int64_t kMaxParts = 4, kPiecesOfAThread = 8;
  // A part's cost: its weights, and as much again for every four rows.
  const int64_t part_bytes = kPartCols * std::max<int64_t>(b.rows, 1) *
                             static_cast<int64_t>(b.integers ? sizeof(int8_t) : sizeof(float));
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

cpu::WeightView::WeightView(std::span<const WeightRows> blocks) {
  Impl whole;
  whole.rows = blocks[0].cols;
  whole.integers = blocks[0].dtype == DType::i8;
  for (const WeightRows& block : blocks) {
    if (in_blocks(block.dtype) && std::ranges::count(whole.block_dtypes, block.dtype) == 0)
      whole.block_dtypes.push_back(block.dtype);
    whole.all_blocks = whole.all_blocks && in_blocks(block.dtype);
  }
  for (const WeightRows& block : blocks) {
    const auto row_bytes = static_cast<int64_t>(bytes_of(block.dtype, block.stride));
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
  const F32Matrix x = f32(a);
  const MutableF32Matrix y = f32(c);
  const bool integers = b.integers;
  const QuantizedRows q =
      integers ? quantize_inputs(x, HWY_DYNAMIC_DISPATCH(layout_of)(a.rows)) : QuantizedRows();
  GroupedRows bytes, words;
  const auto takes_words = [](DType dtype) { return HWY_DYNAMIC_DISPATCH(takes_words)(dtype); };
  for (const DType dtype : b.block_dtypes) {
    const bool wide = takes_words(dtype);
    GroupedRows& rows = wide ? words : bytes;
    if (rows.numbers == nullptr) rows = quantize_by_groups(x, wide);
  }
  const int64_t max_rows = integers ? kPartRows : HWY_DYNAMIC_DISPATCH(rows_of_float_part)();
  const int64_t panels = (a.rows + max_rows - 1) / max_rows, parts = static_cast<int64_t>(b.parts.size());
  // Floats in nearly equal panels; quantized rows may lie in tiles, which panels must not divide.
  const int64_t part_rows = integers ? kPartRows : (a.rows + panels - 1) / std::max<int64_t>(1, panels);
  // Several parts of the same rows share these in a cache. Few rows stay there whole, and weights in blocks
  // are read in longer runs.
  const bool whole = integers || a.rows <= kReadWhole || (b.all_blocks && part_rows <= kFewRows);
  const int64_t depth = whole ? std::max<int64_t>(b.rows, 1) : kDepth;
  const auto run = [&](int64_t index, int64_t end, int64_t first) {
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
      .y = y.data + row * y.stride + columns.first_col,
      .y_stride = y.stride,
      .x = x.data + row * x.stride,
      .x_stride = x.stride,
      .first = first,
      .depth = std::min(depth, b.rows - first),
      .scratch = integers ? nullptr : scratch<float>(Scratch::tile, kDepth * kTileCols),
      .grouped = in_blocks(w.dtype) && takes_words(w.dtype) ? &words : &bytes,
      .first_row = row,
      .following = index % parts + 1 < std::min(parts, index % parts + end - index)
                       ? (&columns)[1].weights.data
                       : nullptr,
      .q = integers ? q.numbers + row * q.stride : nullptr,
      .q_layout = q.layout,
      .q_stride = q.stride,
      .q_scales = integers ? q.scales + row : nullptr,
      .q_zeros = integers ? q.zeros + row : nullptr,
      .w_scales = w.scales,
      .w_sums = integers ? b.sums.data() + columns.first_col : nullptr});
  };
  parallel_for(panels * parts, parts_at_a_time(b, panels, std::min(part_rows, a.rows)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t first = 0; first == 0 || first < b.rows; first += depth) {
                   for (int64_t index = begin; index < end; ++index) run(index, end, first);
                 }
               });
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE

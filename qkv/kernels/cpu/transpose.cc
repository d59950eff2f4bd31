#include "qkv/kernels/cpu/kernels.h"

#include <array>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/transpose.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Code independent of the Highway target, compiled once.
#ifndef QKV_KERNELS_CPU_TRANSPOSE_CC_
#define QKV_KERNELS_CPU_TRANSPOSE_CC_
namespace qkv::kernels {
namespace {

constexpr size_t kLineBytes = 64;  // of a cache line

template <class T>
struct Turned {
  const T* x;
  int64_t x_stride, rows, cols;
  T* y;
};

template <class T>
void turn_plainly(const T* x, int64_t x_stride, int64_t rows, int64_t cols, T* y, int64_t y_stride) {
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) y[j * y_stride + i] = x[i * x_stride + j];
  }
}

}  // namespace
}  // namespace qkv::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Square blocks with a side of one 16-byte vector.
template <class T>
struct Square {
  using Tag = hn::CappedTag<T, 16 / sizeof(T)>;
  static constexpr size_t kSide = hn::MaxLanes(Tag());
  static constexpr auto kLine = static_cast<int64_t>(kLineBytes / sizeof(T));

  // to[j * kLine + i] = x[i * stride + j] for i and j below kSide.
  static void turn(const T* x, int64_t stride, T* to) {
    const Tag d;
    // Not std::array, whose functions would lack the target's attributes.
    hn::Vec<Tag> rows[kSide];
    for (size_t i = 0; i < kSide; ++i) rows[i] = hn::LoadU(d, x + static_cast<int64_t>(i) * stride);
      // Each round interleaves elements half a side apart; after log2(kSide) rounds, rows have become
      // columns.
#if HWY_TARGET != HWY_SCALAR  // which has squares of one element
    hn::Vec<Tag> mixed[kSide];
    for (size_t round = 1; round < kSide; round *= 2) {
      for (size_t i = 0; i < kSide / 2; ++i) {
        mixed[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + kSide / 2]);
        mixed[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + kSide / 2]);
      }
      for (size_t i = 0; i < kSide; ++i) rows[i] = mixed[i];
    }
#endif
    for (size_t j = 0; j < kSide; ++j) hn::Store(rows[j], d, to + static_cast<int64_t>(j) * kLine);
  }

  // Writes a cache line, bypassing the caches if it is aligned to a line.
  static void write(const T* line, T* to, bool past_caches) {
    const Tag d;
    for (int64_t i = 0; i < kLine; i += static_cast<int64_t>(kSide)) {
      const auto part = hn::Load(d, line + i);
      past_caches ? hn::Stream(part, d, to + i) : hn::StoreU(part, d, to + i);
    }
  }
};

// Processes as many rows of x as fill a cache line of y: they are read sequentially side by side, and each
// line is written at once, so that it need not be fetched.
template <class T>
void turn_rows(const T* x, int64_t x_stride, int64_t cols, T* y, int64_t y_stride, bool past_caches) {
  using Block = Square<T>;
  constexpr auto kSide = static_cast<int64_t>(Block::kSide), kLine = Block::kLine;
  HWY_ALIGN std::array<T, kSide * kLine> lines;
  const int64_t whole = cols / kSide * kSide;
  for (int64_t j = 0; j < whole; j += kSide) {
    for (int64_t i = 0; i < kLine; i += kSide) Block::turn(x + i * x_stride + j, x_stride, lines.data() + i);
    for (int64_t k = 0; k < kSide; ++k)
      Block::write(lines.data() + k * kLine, y + (j + k) * y_stride, past_caches);
  }
  turn_plainly(x + whole, x_stride, kLine, cols - whole, y + whole * y_stride, y_stride);
}

template <class T>
void turn_lines(const Turned<T>& a, int64_t begin, int64_t end) {
  constexpr int64_t kLine = Square<T>::kLine;
  const bool past_caches = reinterpret_cast<uintptr_t>(a.y) % kLineBytes == 0 && a.rows % kLine == 0;
  for (int64_t i = begin * kLine; i < end * kLine; i += kLine)
    turn_rows(a.x + i * a.x_stride, a.x_stride, a.cols, a.y + i, a.rows, past_caches);
  hwy::FlushStream();
}

void turn_lines_32(const Turned<uint32_t>& a, int64_t begin, int64_t end) { turn_lines(a, begin, end); }
void turn_lines_16(const Turned<uint16_t>& a, int64_t begin, int64_t end) { turn_lines(a, begin, end); }

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(turn_lines_32);
HWY_EXPORT(turn_lines_16);

template <class T, class TurnLines>
void turn(const Turned<T>& a, const TurnLines& turn_lines) {
  constexpr auto kLine = static_cast<int64_t>(kLineBytes / sizeof(T));
  const int64_t lines = a.rows / kLine, rest = lines * kLine;
  parallel_for(lines, 1, turn_lines);
  turn_plainly(a.x + rest * a.x_stride, a.x_stride, a.rows - rest, a.cols, a.y + rest, a.rows);
}

}  // namespace

void transpose(const void* x, int64_t x_stride, int64_t rows, int64_t cols, size_t element, void* y) {
  if (element == sizeof(uint16_t)) {
    const Turned<uint16_t> a{static_cast<const uint16_t*>(x), x_stride, rows, cols,
                             static_cast<uint16_t*>(y)};
    return turn(a, [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(turn_lines_16)(a, begin, end); });
  }
  const Turned<uint32_t> a{static_cast<const uint32_t*>(x), x_stride, rows, cols, static_cast<uint32_t*>(y)};
  turn(a, [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(turn_lines_32)(a, begin, end); });
}

}  // namespace qkv::kernels::cpu
#endif

#include "qkv/kernels/cpu/products/strips.h"

#include <algorithm>
#include <cstring>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/operands.h"
#include "qkv/kernels/cpu/products/scratch.h"
#include "qkv/kernels/cpu/products/strip_product.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {
namespace {

// The result's blocks, each computed by one thread. The L2 cache holds the left-hand side's rows of a block,
// kStripDepth numbers long. Wide blocks share the copies of these rows; a small result has narrower ones, for
// more threads.
constexpr int64_t kBlockRows = 132, kMaxBlockCols = 256, kMinBlockCols = 64;
constexpr int64_t kEnoughBlocks = 8;
static_assert(kBlockRows % kStripRows == 0 && kMinBlockCols % kStripCols == 0);

struct Blocks {
  int64_t rows, cols;  // of a block
  int64_t across, count;
};

Blocks blocks_of(const MutableF32Matrix& c) {
  const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  // Nearly equal numbers of rows.
  const int64_t rows = round_up(parts(c.rows, std::max<int64_t>(1, parts(c.rows, kBlockRows))), kStripRows);
  const int64_t down = parts(c.rows, std::max<int64_t>(1, rows));
  int64_t cols = kMaxBlockCols;
  while (cols > kMinBlockCols && down * parts(c.cols, cols) < kEnoughBlocks) cols /= 2;
  return {rows, cols, parts(c.cols, cols), down * parts(c.cols, cols)};
}

// Calls task(block, first_row, first_col) for the blocks of c, on all threads.
template <class Task>
void for_blocks(const MutableF32Matrix& c, const Task& task) {
  const Blocks blocks = blocks_of(c);
  parallel_for(blocks.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t row = index / blocks.across * blocks.rows, col = index % blocks.across * blocks.cols;
      task(MutableF32Matrix{c.data + row * c.stride + col, std::min(blocks.rows, c.rows - row),
                            std::min(blocks.cols, c.cols - col), c.stride},
           row, col);
    }
  });
}

void copy_values(const float* from, int64_t count, DType operands, float* to) {
  if (operands == DType::bf16) {
    round_values(from, count, to);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

// Copies are this much longer than a power of two, which would map them to few sets of the L1 cache.
constexpr int64_t kPad = 16;

// A copy of up to kStripDepth rows, rounded to the dtype of operands: in groups of `width` columns, each
// [rows, width].
template <int64_t width>
class Groups {
 public:
  static constexpr int64_t kStride = kStripDepth * width + kPad;  // between groups

  explicit Groups(int64_t cols)
      : memory_(allocate(static_cast<size_t>((cols + width - 1) / width * kStride) * sizeof(float))) {}

  void copy(const F32Matrix& x, DType operands) {
    constexpr int64_t kCols = 16 * width;  // of a task
    parallel_for((x.cols + kCols - 1) / kCols, 1, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin * kCols; first < std::min(end * kCols, x.cols); first += kCols)
        copy_part({x.data + first, x.rows, std::min(kCols, x.cols - first), x.stride}, operands, at(first));
    });
  }

  // The group that begins with this column.
  float* at(int64_t col) const { return reinterpret_cast<float*>(memory_.get()) + col / width * kStride; }

 private:
  static void copy_part(const F32Matrix& x, DType operands, float* to) {
    float* const rounded = operands == DType::bf16 ? scratch<float>(Scratch::turned, x.cols) : nullptr;
    for (int64_t i = 0; i < x.rows; ++i) {
      const float* row = x.data + i * x.stride;
      if (rounded != nullptr) {
        round_values(row, x.cols, rounded);
        row = rounded;
      }
      float* group = to + i * width;
      int64_t col = 0;
      for (; col + width <= x.cols; col += width, group += kStride)
        std::memcpy(group, row + col, width * sizeof(float));
      std::copy(row + col, row + x.cols, group);
    }
  }

  Storage memory_;
};

}  // namespace

void multiply_strips(const F32Matrix& a, const cpu::PackedMatrix::Impl& b, const float* bias,
                     const MutableF32Matrix& c, Accumulate accumulate) {
  for_blocks(c, [&](const MutableF32Matrix& block, int64_t first_row, int64_t first_col) {
    const auto* const strips = reinterpret_cast<const float*>(b.blocks.front().data.get());
    constexpr int64_t kStride = kStripDepth + kPad;
    float* const left = scratch<float>(Scratch::left, block.rows * kStride);
    for (int64_t first = 0; first < b.rows; first += kStripDepth) {
      const int64_t depth = std::min(kStripDepth, b.rows - first);
      for (int64_t row = 0; row < block.rows; ++row)
        copy_values(a.data + (first_row + row) * a.stride + first, depth, b.operands, left + row * kStride);
      for (int64_t col = 0; col < block.cols; col += kStripCols) {
        const float* const strip = strips + (first_col + col) * b.rows + first * kStripCols;
        multiply_strip({.a = left,
                        .a_stride = kStride,
                        .b = strip,
                        .rows = block.rows,
                        .cols = std::min(kStripCols, block.cols - col),
                        .depth = depth,
                        .bias = bias != nullptr && first == 0 ? bias + first_col + col : nullptr,
                        .add = first > 0 || accumulate == Accumulate::yes,
                        .c = block.data + col,
                        .c_stride = block.stride,
                        .next = col + kStripCols < block.cols ? strip + kStripCols * b.rows : nullptr});
      }
    }
  });
}

void multiply_transposed_in_strips(const F32Matrix& a, const F32Matrix& b, const MutableF32Matrix& c,
                                   Accumulate accumulate, DType operands) {
  const MemoryScope memory(MemoryUse::scratch);
  Groups<kStripRows> left(a.cols);
  Groups<kStripCols> right(b.cols);
  for (int64_t first = 0; first < a.rows; first += kStripDepth) {
    const int64_t depth = std::min(kStripDepth, a.rows - first);
    left.copy({a.data + first * a.stride, depth, a.cols, a.stride}, operands);
    right.copy({b.data + first * b.stride, depth, b.cols, b.stride}, operands);
    for_blocks(c, [&](const MutableF32Matrix& block, int64_t first_row, int64_t first_col) {
      for (int64_t col = 0; col < block.cols; col += kStripCols) {
        multiply_strip({.a = left.at(first_row),
                        .a_stride = left.kStride,
                        .grouped = true,
                        .b = right.at(first_col + col),
                        .rows = block.rows,
                        .cols = std::min(kStripCols, block.cols - col),
                        .depth = depth,
                        .add = first > 0 || accumulate == Accumulate::yes,
                        .c = block.data + col,
                        .c_stride = block.stride});
      }
    });
  }
}

}  // namespace qkv::kernels

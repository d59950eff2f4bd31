// Products with packed weights, and weight gradients, divided into pieces that oneDNN computes.
//
// Each piece is computed by one thread. The output is split into panels of rows by blocks of columns whose
// bounds depend on the shapes only. oneDNN compiles every new shape, and ragged batches have a new number of
// rows each time, so panels have kPanelRows rows or, at the end, one of a few smaller numbers; the rest of
// such a panel is scratch.

#include "qkv/kernels/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "qkv/base/parallel.h"
#include "qkv/base/per_thread.h"
#include "qkv/kernels/cpu/products/onednn.h"
#include "qkv/kernels/cpu/products/packed_matrix.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {
namespace {

constexpr int64_t kPanelRows = 64;
constexpr std::array<int64_t, 9> kPanelCounts{1, 2, 4, 8, 16, 24, 32, 48, kPanelRows};

// Weight gradients: the output block of a task, and the number of rows summed per call.
constexpr int64_t kGradientRows = 128, kGradientCols = 512;
constexpr int64_t kChunk = 512, kChunkStep = 32;

// Scratch of this thread, grown as needed, one buffer per use.
enum class Scratch { left, right, result };

struct Buffers {
  struct Buffer {
    Storage memory;
    int64_t count = 0;
  };
  std::array<Buffer, 3> of_use;
};

float* scratch(Scratch use, int64_t count) {
  Buffers::Buffer& buffer = per_thread<Buffers>().of_use[static_cast<size_t>(use)];
  if (buffer.count < count) {
    const MemoryScope memory(MemoryUse::scratch);
    buffer = {allocate(static_cast<size_t>(count) * sizeof(float)), count};
  }
  return reinterpret_cast<float*>(buffer.memory.get());
}

void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, static_cast<size_t>(cols) * sizeof(float));
  }
}

}  // namespace

void cpu::matmul(const Matrix& a, const cpu::PackedMatrix& b, const float* bias, const MutableMatrix& c,
                 Accumulate accumulate) {
  const cpu::PackedMatrix::Impl& packed = *b.impl();
  const bool add = accumulate == Accumulate::yes;
  const int64_t panels = (a.rows + kPanelRows - 1) / kPanelRows;
  const int64_t blocks = static_cast<int64_t>(packed.blocks.size());
  const auto task = [&](int64_t index) {
    const cpu::PackedMatrix::Impl::Block& block = packed.blocks[static_cast<size_t>(index / panels)];
    const int64_t first_row = index % panels * kPanelRows;
    const int64_t rows = std::min(kPanelRows, a.rows - first_row);
    // The kernel for plain rows sums in another order for few rows.
    const int64_t run_rows =
        packed.layout == PackLayout::rows ? kPanelRows : *std::ranges::lower_bound(kPanelCounts, rows);
    const float* a_data = a.data + first_row * a.stride;
    float* const c_data = c.data + first_row * c.stride + block.first_col;
    // oneDNN's fast kernel requires contiguous operands.
    if (run_rows != rows || a.stride != packed.rows) {
      float* tight = scratch(Scratch::left, run_rows * packed.rows);
      copy_rows(a_data, a.stride, tight, packed.rows, rows, packed.rows);
      std::fill(tight + rows * packed.rows, tight + run_rows * packed.rows, 0.0f);
      a_data = tight;
    }
    const bool direct = run_rows == rows && c.stride == block.cols;
    float* result = direct ? c_data : scratch(Scratch::result, run_rows * block.cols);
    if (add && !direct) {
      copy_rows(c_data, c.stride, result, block.cols, rows, block.cols);
      std::fill(result + rows * block.cols, result + run_rows * block.cols, 0.0f);
    }
    onednn::run({run_rows, block.cols, packed.rows, bias != nullptr, add, packed.layout}, a_data,
                block.data.get(), bias ? bias + block.first_col : nullptr, result);
    if (!direct) copy_rows(result, block.cols, c_data, c.stride, rows, block.cols);
  };
  const onednn::SignalsWait signals;
  parallel_for(panels * blocks, 1, [&](int64_t begin, int64_t end) {
    const onednn::OneThread one_thread;
    for (int64_t index = begin; index < end; ++index) task(index);
  });
}

void cpu::matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c,
                              Accumulate accumulate) {
  if (a.rows == 0) {
    if (accumulate == Accumulate::no) {
      for (int64_t row = 0; row < c.rows; ++row) std::fill_n(c.data + row * c.stride, c.cols, 0.0f);
    }
    return;
  }
  const int64_t row_blocks = (c.rows + kGradientRows - 1) / kGradientRows;
  const int64_t col_blocks = (c.cols + kGradientCols - 1) / kGradientCols;
  const auto task = [&](int64_t index) {
    const int64_t first_row = index / col_blocks * kGradientRows,
                  first_col = index % col_blocks * kGradientCols;
    const int64_t rows = std::min(kGradientRows, c.rows - first_row);
    const int64_t cols = std::min(kGradientCols, c.cols - first_col);
    bool add = accumulate == Accumulate::yes;
    float* c_data = c.data + first_row * c.stride + first_col;
    const auto run = [&](const float* a_data, int64_t a_stride, const float* b_data, int64_t b_stride,
                         int64_t depth) {
      onednn::run({rows, cols, depth, false, add, std::nullopt, a_stride, b_stride, c.stride}, a_data, b_data,
                  nullptr, c_data);
      add = true;
    };
    int64_t done = 0;
    while (a.rows - done >= kChunkStep) {
      const int64_t depth = std::min(kChunk, (a.rows - done) / kChunkStep * kChunkStep);
      run(a.data + done * a.stride + first_row, a.stride, b.data + done * b.stride + first_col, b.stride,
          depth);
      done += depth;
    }
    if (const int64_t rest = a.rows - done; rest > 0) {  // padded with rows of zeros
      float* a_rest = scratch(Scratch::left, kChunkStep * rows);
      float* b_rest = scratch(Scratch::right, kChunkStep * cols);
      copy_rows(a.data + done * a.stride + first_row, a.stride, a_rest, rows, rest, rows);
      copy_rows(b.data + done * b.stride + first_col, b.stride, b_rest, cols, rest, cols);
      std::fill(a_rest + rest * rows, a_rest + kChunkStep * rows, 0.0f);
      std::fill(b_rest + rest * cols, b_rest + kChunkStep * cols, 0.0f);
      run(a_rest, rows, b_rest, cols, kChunkStep);
    }
  };
  const onednn::SignalsWait signals;
  parallel_for(row_blocks * col_blocks, 1, [&](int64_t begin, int64_t end) {
    const onednn::OneThread one_thread;
    for (int64_t index = begin; index < end; ++index) task(index);
  });
}

}  // namespace qkv::kernels

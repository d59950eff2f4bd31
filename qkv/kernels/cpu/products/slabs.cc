// Each piece is computed by one thread. The output is split into panels of rows by blocks of columns whose
// bounds depend on the shapes only. oneDNN compiles every new shape, and ragged batches have a new number of
// rows each time, so panels have kPanelRows rows or, at the end, one of a few smaller numbers; the rest of
// such a panel is scratch.

#include "qkv/kernels/cpu/products/slabs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/onednn.h"
#include "qkv/kernels/cpu/products/operands.h"
#include "qkv/kernels/cpu/products/scratch.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {
namespace {

constexpr int64_t kPanelRows = 64;
constexpr std::array<int64_t, 9> kPanelCounts{1, 2, 4, 8, 16, 24, 32, 48, kPanelRows};

// Weight gradients: the output block of a task, and the number of rows summed per call.
constexpr int64_t kGradientRows = 128, kGradientCols = 512, kChunk = 512, kChunkStep = 32;

void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, static_cast<size_t>(cols) * sizeof(float));
  }
}

// The left operand of a panel as the product reads it: contiguous and rounded, followed by rows of zeros.
struct Panel {
  const void* data;
  int64_t cols;
};

// The rows of `a`, of which run_rows are read.
Panel panel_of_rows(const cpu::PackedMatrix::Impl& b, const F32Matrix& a, int64_t run_rows) {
  const int64_t cols = b.rows;
  if (b.layout == PackLayout::bf16_slabs) {
    const int64_t padded = round_up(cols, kBf16Rows);
    auto* const tight = scratch<BFloat16>(Scratch::left, run_rows * padded);
    std::array<const float*, kPanelRows> rows{};
    for (int64_t row = 0; row < a.rows; ++row) rows[static_cast<size_t>(row)] = a.data + row * a.stride;
    round_rows(rows.data(), a.rows, cols, tight, padded);
    std::fill(tight + a.rows * padded, tight + run_rows * padded, BFloat16{});
    return {tight, padded};
  }
  // oneDNN's fast kernel requires contiguous operands.
  const bool round = b.operands == DType::bf16;
  if (!round && run_rows == a.rows && a.stride == cols) return {a.data, cols};
  auto* const tight = scratch<float>(Scratch::left, run_rows * cols);
  copy_rows(a.data, a.stride, tight, cols, a.rows, cols);
  if (round) round_values(tight, a.rows * cols, tight);
  std::fill(tight + a.rows * cols, tight + run_rows * cols, 0.0f);
  return {tight, cols};
}

// The columns [first, first + cols) of `a` as rows, of which run_rows are read; for bf16_slabs.
Panel panel_of_columns(const F32Matrix& a, int64_t first, int64_t cols, int64_t run_rows) {
  const int64_t pairs = round_up(a.rows, kBf16Rows) / 2;
  auto* const rounded = scratch<BFloat16>(Scratch::turned, 2 * pairs * cols);
  std::array<const float*, kChunk> rows{};
  for (int64_t row = 0; row < a.rows; ++row) rows[static_cast<size_t>(row)] = a.data + row * a.stride;
  round_pairs(rows.data(), a.rows, first, cols, rounded, cols);
  std::fill(rounded + round_up(a.rows, 2) * cols, rounded + 2 * pairs * cols, BFloat16{});
  // A pair is transposed as a 32-bit number.
  for (int64_t pair = 0; pair < pairs; ++pair)
    rows[static_cast<size_t>(pair)] = reinterpret_cast<const float*>(rounded + 2 * pair * cols);
  auto* const tight = scratch<BFloat16>(Scratch::left, run_rows * 2 * pairs);
  transpose_rows(rows.data(), pairs, cols, reinterpret_cast<float*>(tight), pairs);
  std::fill(tight + cols * 2 * pairs, tight + run_rows * 2 * pairs, BFloat16{});
  return {tight, 2 * pairs};
}

// The bits of a row do not depend on the number of rows that are computed with it.
int64_t count_run_rows(int64_t rows) { return *std::ranges::lower_bound(kPanelCounts, rows); }

// A panel's result: c itself if it is contiguous, or scratch.
class Result {
 public:
  Result(const MutableF32Matrix& c, int64_t run_rows, bool add)
      : c_(c), direct_(run_rows == c.rows && c.stride == c.cols) {
    data_ = direct_ ? c.data : scratch<float>(Scratch::result, run_rows * c.cols);
    if (!add || direct_) return;
    copy_rows(c.data, c.stride, data_, c.cols, c.rows, c.cols);
    std::fill(data_ + c.rows * c.cols, data_ + run_rows * c.cols, 0.0f);
  }
  float* data() const { return data_; }
  void store() const {
    if (!direct_) copy_rows(data_, c_.cols, c_.data, c_.stride, c_.rows, c_.cols);
  }

 private:
  MutableF32Matrix c_;
  bool direct_;
  float* data_;
};

// Calls task(index) for the indices below `count`, on all threads.
template <class Task>
void for_tasks(int64_t count, const Task& task) {
  const onednn::SignalsWait signals;
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    const onednn::OneThread one_thread;
    for (int64_t index = begin; index < end; ++index) task(index);
  });
}

// The gradient of a weight with operands in bf16: chunks of b are packed, then read by all panels of c's
// rows.
void multiply_transposed_in_bf16(const F32Matrix& a, const F32Matrix& b, const MutableF32Matrix& c,
                                 Accumulate accumulate) {
  const auto chunk_of = [](const F32Matrix& x, int64_t first) {
    return F32Matrix{x.data + first * x.stride, std::min(kChunk, x.rows - first), x.cols, x.stride};
  };
  std::vector<cpu::PackedMatrix> chunks;
  {
    const MemoryScope memory(MemoryUse::packed);
    for (int64_t first = 0; first < b.rows; first += kChunk) {
      const Matrix chunk = chunk_of(b, first);
      chunks.push_back(cpu::PackedMatrix::plain({&chunk, 1}, DType::bf16));
    }
  }
  const int64_t panels = (c.rows + kPanelRows - 1) / kPanelRows;
  const auto blocks = static_cast<int64_t>(chunks.front().impl()->blocks.size());
  for_tasks(panels * blocks, [&](int64_t index) {
    const auto block = static_cast<size_t>(index / panels);
    const int64_t first_row = index % panels * kPanelRows;
    const int64_t rows = std::min(kPanelRows, c.rows - first_row);
    const int64_t run_rows = count_run_rows(rows);
    const auto& shape = chunks.front().impl()->blocks[block];
    bool add = accumulate == Accumulate::yes;
    const Result result({c.data + first_row * c.stride + shape.first_col, rows, shape.cols, c.stride},
                        run_rows, add);
    for (size_t i = 0; i < chunks.size(); ++i) {
      const Panel left =
          panel_of_columns(chunk_of(a, static_cast<int64_t>(i) * kChunk), first_row, rows, run_rows);
      onednn::run({run_rows, shape.cols, left.cols, false, add, PackLayout::bf16_slabs}, left.data,
                  chunks[i].impl()->blocks[block].data.get(), nullptr, result.data());
      add = true;
    }
    result.store();
  });
}

// A contiguous copy, rounded to bf16.
struct Rounded {
  Storage memory;
  F32Matrix matrix;

  explicit Rounded(const F32Matrix& x) {
    const MemoryScope scope(MemoryUse::scratch);
    memory = allocate(static_cast<size_t>(x.rows * x.cols) * sizeof(float));
    float* const data = reinterpret_cast<float*>(memory.get());
    parallel_for(x.rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        round_values(x.data + row * x.stride, x.cols, data + row * x.cols);
    });
    matrix = {data, x.rows, x.cols, x.cols};
  }
};

}  // namespace

void multiply_slabs(const F32Matrix& a, const cpu::PackedMatrix::Impl& packed, const float* bias,
                    const MutableF32Matrix& c, Accumulate accumulate) {
  const bool add = accumulate == Accumulate::yes;
  const int64_t panels = (a.rows + kPanelRows - 1) / kPanelRows;
  const int64_t blocks = static_cast<int64_t>(packed.blocks.size());
  for_tasks(panels * blocks, [&](int64_t index) {
    const cpu::PackedMatrix::Impl::Block& block = packed.blocks[static_cast<size_t>(index / panels)];
    const int64_t first_row = index % panels * kPanelRows;
    const int64_t rows = std::min(kPanelRows, a.rows - first_row);
    const int64_t run_rows = count_run_rows(rows);
    const Panel left =
        panel_of_rows(packed, {a.data + first_row * a.stride, rows, packed.rows, a.stride}, run_rows);
    const Result result({c.data + first_row * c.stride + block.first_col, rows, block.cols, c.stride},
                        run_rows, add);
    onednn::run({run_rows, block.cols, left.cols, bias != nullptr, add, packed.layout}, left.data,
                block.data.get(), bias ? bias + block.first_col : nullptr, result.data());
    result.store();
  });
}

void multiply_transposed_with_slabs(const F32Matrix& a, const F32Matrix& b, const MutableF32Matrix& c,
                                    Accumulate accumulate, DType operands) {
  if (operands == DType::bf16) {
    if (onednn::runs_on_bf16_slabs()) return multiply_transposed_in_bf16(a, b, c, accumulate);
    const Rounded rounded_a(a), rounded_b(b);
    return multiply_transposed_with_slabs(rounded_a.matrix, rounded_b.matrix, c, accumulate, DType::f32);
  }
  const int64_t row_blocks = (c.rows + kGradientRows - 1) / kGradientRows;
  const int64_t col_blocks = (c.cols + kGradientCols - 1) / kGradientCols;
  for_tasks(row_blocks * col_blocks, [&](int64_t index) {
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
    if (const int64_t rest = a.rows - done; rest > 0) {
      // A copy, followed by rows of zeros.
      float* const a_copy = scratch<float>(Scratch::left, kChunkStep * rows);
      float* const b_copy = scratch<float>(Scratch::right, kChunkStep * cols);
      copy_rows(a.data + done * a.stride + first_row, a.stride, a_copy, rows, rest, rows);
      copy_rows(b.data + done * b.stride + first_col, b.stride, b_copy, cols, rest, cols);
      std::fill(a_copy + rest * rows, a_copy + kChunkStep * rows, 0.0f);
      std::fill(b_copy + rest * cols, b_copy + kChunkStep * cols, 0.0f);
      run(a_copy, rows, b_copy, cols, kChunkStep);
    }
  });
}

}  // namespace qkv::kernels

#include <algorithm>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/cpu/products/row_blocks.h"
#include "qkv/tensor/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/column_sums.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// sums[c] (+)= sum of x[row, c] over the rows, four at a time, so that memory is read sequentially while the
// sums stay in the L1 cache.
void sum_block(const float* x, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
               Accumulate accumulate) {
  const Floats d;
  bool add = accumulate == Accumulate::yes;
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float *x0 = x + row * row_stride, *x1 = x0 + row_stride, *x2 = x1 + row_stride,
                *x3 = x2 + row_stride;
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto sum = hn::Add(hn::Add(load(d, x0 + i, part), load(d, x1 + i, part)),
                               hn::Add(load(d, x2 + i, part), load(d, x3 + i, part)));
      store(d, add ? hn::Add(load(d, sums + i, part), sum) : sum, sums + i, part);
    });
    add = true;
  }
  for (; row < rows; ++row) {
    const float* x0 = x + row * row_stride;
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto v = load(d, x0 + i, part);
      store(d, add ? hn::Add(load(d, sums + i, part), v) : v, sums + i, part);
    });
    add = true;
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(sum_block);

constexpr int64_t kColumns = 4096;  // per piece of work, if there is only one block of rows

}  // namespace

void column_sums(Elements x, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate) {
  const float* const from = x.f32();
  if (rows <= 0) {
    if (accumulate == Accumulate::no) std::fill(sums, sums + cols, 0.0f);
    return;
  }
  const int64_t block = rows_of_block(rows), blocks = count_row_blocks(rows);
  if (blocks == 1) {
    parallel_for(cols, kColumns, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(sum_block)(from + begin, rows, end - begin, row_stride, sums + begin, accumulate);
    });
    return;
  }
  const MemoryScope memory(MemoryUse::scratch);
  const Storage storage = allocate(static_cast<size_t>(blocks * cols) * sizeof(float));
  float* partial = reinterpret_cast<float*>(storage.get());
  parallel_for(rows, block, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sum_block)
    (from + begin * row_stride, end - begin, cols, row_stride, partial + begin / block * cols,
     Accumulate::no);
  });
  column_sums(partial, blocks, cols, cols, sums, accumulate);
}

}  // namespace qkv::kernels::cpu
#endif

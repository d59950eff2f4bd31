#include "qkv/kernels/reference/elementwise.h"

#include <cstddef>
#include <cstring>

#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {
void copy(const float* x, float* y, int64_t count, Accumulate accumulate) {
  for (int64_t i = 0; i < count; ++i) y[i] = accumulate == Accumulate::yes ? y[i] + x[i] : x[i];
}

void scale(const float* x, float factor, float* y, int64_t count, Accumulate accumulate) {
  for (int64_t i = 0; i < count; ++i) {
    const double before = accumulate == Accumulate::yes ? double{y[i]} : 0;
    y[i] = static_cast<float>(before + double{factor} * double{x[i]});
  }
}

void scale_by(const float* x, const float* factor, float* y, int64_t count, Accumulate accumulate) {
  scale(x, *factor, y, count, accumulate);
}

void total(const float* x, int64_t count, float factor, double* total, float* scaled) {
  *total = 0;
  for (int64_t i = 0; i < count; ++i) *total += double{x[i]};
  if (scaled != nullptr) *scaled = static_cast<float>(*total * double{factor});
}

void add(const float* x, const float* y, float* z, int64_t count) {
  for (int64_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
}

void column_sums(const float* dy, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate) {
  Doubles result(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) result[static_cast<size_t>(c)] += double{dy[r * row_stride + c]};
  }
  store(result, sums, accumulate);
}

void transpose(const void* x, int64_t x_stride, int64_t rows, int64_t cols, size_t element, void* y) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      std::memcpy(static_cast<std::byte*>(y) + at(c, rows, r) * element,
                  static_cast<const std::byte*>(x) + at(r, x_stride, c) * element, element);
    }
  }
}

}  // namespace qkv::kernels::reference

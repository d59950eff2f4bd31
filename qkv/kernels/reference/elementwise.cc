#include "qkv/kernels/reference/elementwise.h"

#include <cstddef>
#include <cstring>

#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {
void copy(Elements x, MutableElements y, int64_t count, Accumulate accumulate) {
  for (int64_t i = 0; i < count; ++i) store_element(y, i, get(x, i), accumulate);
}

void scale(Elements x, float factor, MutableElements y, int64_t count, Accumulate accumulate) {
  for (int64_t i = 0; i < count; ++i) store_element(y, i, double{factor} * get(x, i), accumulate);
}

void scale_by(Elements x, const float* factor, MutableElements y, int64_t count, Accumulate accumulate) {
  scale(x, *factor, y, count, accumulate);
}

void total(const float* x, int64_t count, float factor, double* total, float* scaled) {
  *total = 0;
  for (int64_t i = 0; i < count; ++i) *total += double{x[i]};
  if (scaled != nullptr) *scaled = static_cast<float>(*total * double{factor});
}

void add(Elements x, Elements y, MutableElements z, int64_t count) {
  for (int64_t i = 0; i < count; ++i) store_element(z, i, get(x, i) + get(y, i), Accumulate::no);
}

void column_sums(Elements dy, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate) {
  Doubles result(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) result[static_cast<size_t>(c)] += get(dy, r * row_stride + c);
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

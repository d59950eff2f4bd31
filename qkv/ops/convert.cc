#include "qkv/ops/convert.h"

#include "qkv/kernels/weight_rows.h"

namespace qkv {
namespace {

void require_floats(const char* name, const Tensor& x) {
  if (x.dtype() == DType::f32 || x.dtype() == DType::bf16) return;
  throw ShapeError(concat(name, ": expected f32 or bf16, found ", name_of(x.dtype()), " ", x.shape()));
}

// convert(numbers of x, where they go, rows, columns), for all rows at once where x has no gaps.
template <class From, class To, class Convert>
Variable converted(const char* name, const Variable& x, const Convert& convert) {
  const Tensor& value = x.value();
  const Tensor y = Tensor::empty(value.shape(), dtype_of<To>);
  if (value.contiguous()) {
    convert(value.data<From>(), y.data<To>(), value.rows(), value.cols());
  } else {
    for (int64_t row = 0; row < value.rows(); ++row) {
      convert(value.data<From>() + row * value.row_stride(), y.data<To>() + row * value.cols(), 1,
              value.cols());
    }
  }
  if (!Tape::records({x})) return y;
  return Tape::record(name, y, [x](const Tensor& dy) { x.add_grad(dy); });
}

}  // namespace

Variable to_f32(const Variable& x) {
  constexpr const char* kName = "to_f32";
  require_floats(kName, x.value());
  if (x.value().dtype() == DType::f32) return x;
  return converted<BFloat16, float>(
      kName, x, [](const BFloat16* from, float* to, int64_t rows, int64_t cols) {
        kernels::widen_rows({.data = from, .form = DType::bf16, .rows = rows, .cols = cols}, to);
      });
}

Variable to_bf16(const Variable& x) {
  constexpr const char* kName = "to_bf16";
  require_floats(kName, x.value());
  if (x.value().dtype() == DType::bf16) return x;
  return converted<float, BFloat16>(kName, x,
                                    [](const float* from, BFloat16* to, int64_t rows, int64_t cols) {
                                      kernels::round_to_bf16(from, to, rows * cols);
                                    });
}

}  // namespace qkv

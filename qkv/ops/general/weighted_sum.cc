#include "qkv/ops/general/weighted_sum.h"

#include "qkv/kernels/pointwise.h"
#include "qkv/ops/general/contiguous.h"

namespace qkv {

Variable weighted_sum(const Variable& input, const Tensor& given) {
  const Variable x = contiguous_f32("weighted_sum", input);
  const Tensor coefficients = contiguous_f32("weighted_sum", given).value();
  if (x.shape() != coefficients.shape()) {
    throw ShapeError(concat("weighted_sum: shapes differ: ", x.shape(), " and ", coefficients.shape()));
  }
  const Device device = x.value().device();
  const Tensor host_x = to_host(x.value()), host_coefficients = to_host(coefficients);
  const auto values = host_x.values(), factors = host_coefficients.values();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += double{values[i]} * factors[i];
  Tensor y = Tensor::full({1}, static_cast<float>(sum), device);
  if (!Tape::records({x})) return y;
  return Tape::record("weighted_sum", y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::scale(from_host(coefficients, device), dy, slot.tensor, slot.accumulate);
  });
}

}  // namespace qkv

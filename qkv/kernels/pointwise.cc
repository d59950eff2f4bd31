#include "qkv/kernels/pointwise.h"

#include <bit>

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void copy(const Tensor& x, Tensor& y, Accumulate accumulate) {
  count_elements(x.numel() * (1 + memory_passes(accumulate)));
  const Backend& device = backend_of("copy", x, y);
  const Elements from = elements(x);
  const MutableElements to = mutable_elements(y);
  if (x.contiguous() && y.contiguous()) return device.copy(from, to, x.numel(), accumulate);
  for (int64_t row = 0; row < x.rows(); ++row)
    device.copy(from + row * x.row_stride(), to + row * y.row_stride(), x.cols(), accumulate);
}

void scale(const Tensor& x, float factor, Tensor& y, Accumulate accumulate) {
  count_elements(x.numel() * (1 + memory_passes(accumulate)));
  const Backend& device = backend_of("scale", x, y);
  const Elements from = elements(x);
  const MutableElements to = mutable_elements(y);
  if (x.contiguous() && y.contiguous()) return device.scale(from, factor, to, x.numel(), accumulate);
  for (int64_t row = 0; row < x.rows(); ++row)
    device.scale(from + row * x.row_stride(), factor, to + row * y.row_stride(), x.cols(), accumulate);
}

void scale(const Tensor& x, const Tensor& factor, Tensor& y, Accumulate accumulate) {
  count_elements(x.numel() * (1 + memory_passes(accumulate)));
  const Backend& device = backend_of("scale", x, factor, y);
  const Elements from = elements(x);
  const MutableElements to = mutable_elements(y);
  if (x.contiguous() && y.contiguous())
    return device.scale_by(from, address(factor), to, x.numel(), accumulate);
  for (int64_t row = 0; row < x.rows(); ++row)
    device.scale_by(from + row * x.row_stride(), address(factor), to + row * y.row_stride(), x.cols(),
                    accumulate);
}

void add(const Tensor& x, const Tensor& y, Tensor& z) {
  count_elements(3 * x.numel());
  backend_of("add", x, y, z).add(elements(x), elements(y), mutable_elements(z), x.numel());
}

void activate(Activation activation, const Tensor& x, const Dropout& dropout, Tensor& y) {
  count_elements(2 * x.numel());
  backend_of("activate", x, y)
      .activate(activation, elements(x), mutable_elements(y), x.rows(), x.cols(), dropout);
}

void activate_backward(Activation activation, const Tensor& x, const Tensor& dy, const Dropout& dropout,
                       GradientSlot dx) {
  count_elements(x.numel() * (2 + memory_passes(dx.accumulate)));
  backend_of("activate_backward", x, dy, dx.tensor)
      .activate_backward(activation, elements(x), elements(dy), mutable_elements(dx.tensor), x.rows(),
                         x.cols(), dropout, dx.accumulate);
}

void relu_backward(const Tensor& y, const Tensor& dy, float factor, Tensor& dx) {
  count_elements(3 * y.numel());
  backend_of("relu_backward", y, dy, dx)
      .relu_backward(elements(y), elements(dy), factor, mutable_elements(dx), y.numel());
}

void column_sums(const Tensor& x, GradientSlot sums) {
  count_elements(x.numel() + memory_passes(sums.accumulate) * x.cols());
  backend_of("column_sums", x, sums.tensor)
      .column_sums(elements(x), x.rows(), x.cols(), x.row_stride(), address(sums.tensor), sums.accumulate);
}

Tensor transposed(const Tensor& x) {
  if (in_blocks(x.dtype()))
    throw ShapeError(
        concat("transposed: expected numbers that are not in blocks, found ", name_of(x.dtype())));
  Tensor y = Tensor::empty({x.cols(), x.rows()}, x.dtype(), x.device());
  backend_of("transposed", x)
      .transpose(address<void>(x), x.row_stride(), x.rows(), x.cols(), layout_of(x.dtype()).bytes,
                 address<void>(y));
  return y;
}

void total(const Tensor& x, float factor, Tensor& sums, int64_t i, Tensor scaled) {
  count_elements(x.numel());
  backend_of("total", x, sums, scaled)
      .total(address(x), x.numel(), factor, static_cast<double*>(address<void>(sums)) + i, address(scaled));
}

std::vector<double> doubles(std::span<const Tensor> bits) {
  int64_t count = 0;
  Device device = Device::cpu;
  for (const Tensor& one : bits) {
    if (!one.defined()) continue;
    count += one.numel();
    device = one.device();
  }
  if (count == 0) return {};
  Tensor all = Tensor::empty({count}, DType::i64, device);
  int64_t first = 0;
  for (const Tensor& one : bits) {
    if (!one.defined()) continue;
    all.slice_rows(first, one.numel()).copy_from(one);
    first += one.numel();
  }
  const Tensor host = to_host(all);
  std::vector<double> numbers;
  for (const int64_t one : host.values<int64_t>()) numbers.push_back(std::bit_cast<double>(one));
  return numbers;
}

Tensor sums_of_squares(std::span<const Tensor> tensors) {
  if (tensors.empty()) return {};
  Tensor all = Tensor::empty({std::ssize(tensors)}, DType::i64, tensors.front().device());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    count_elements(x.numel());
    backend_of("sum_of_squares", x, all)
        .sum_of_squares(address(x), x.numel(), static_cast<double*>(address<void>(all)) + i);
  }
  return all;
}

bool all_finite(const Tensor& x) {
  count_elements(x.numel());
  Tensor finite = Tensor::empty({1}, DType::i32, x.device());
  backend_of("all_finite", x).all_finite(elements(x), x.numel(), address<int32_t>(finite));
  return to_host(finite).values<int32_t>()[0] != 0;
}

}  // namespace qkv::kernels

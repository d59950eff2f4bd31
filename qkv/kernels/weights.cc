#include "qkv/kernels/weights.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

WeightRows weight_rows(const QuantizedTensor& weight) {
  return {.data = address<void>(weight.values),
          .dtype = weight.dtype(),
          .scales = weight.dtype() == DType::i8 ? address(weight.scales) : nullptr,
          .rows = weight.values.dim(0),
          .cols = weight.values.dim(1),
          .stride = weight.values.row_stride()};
}

void round_to_bf16(const Tensor& from, Tensor& to) {
  backend_of("round_to_bf16", from, to).round_to_bf16(address(from), address<BFloat16>(to), from.numel());
}

void round_to_f16(const Tensor& from, Tensor& to) {
  backend_of("round_to_f16", from, to).round_to_f16(address(from), address<Float16>(to), from.numel());
}

void quantize_rows(const Tensor& from, Tensor& to, Tensor& scales) {
  backend_of("quantize_rows", from, to, scales)
      .quantize_rows(address(from), from.rows(), from.cols(), address<int8_t>(to), address(scales));
}

void widen_rows(const QuantizedTensor& from, Tensor& to) {
  const Tensor& values = from.values;  // of any rank: biases in a bf16 file are vectors
  backend_of("widen_rows", values, from.scales, to)
      .widen_rows({.data = address<void>(values),
                   .dtype = values.dtype(),
                   .scales = values.dtype() == DType::i8 ? address(from.scales) : nullptr,
                   .rows = values.rows(),
                   .cols = values.cols(),
                   .stride = values.row_stride()},
                  address(to));
}

}  // namespace qkv::kernels

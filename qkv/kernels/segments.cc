#include "qkv/kernels/segments.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
namespace {

Segments segments(const Offsets& offsets, int64_t cols) {
  return {.offsets = offsets.data(), .segments = offsets.sequences(), .cols = cols};
}

}  // namespace

void segment_mean(const Tensor& x, const Offsets& offsets, Tensor& y) {
  count_elements(x.numel() + y.numel());
  backend_of("segment_mean", x, y)
      .segment_mean({.segments = segments(offsets, x.cols()), .x = address(x), .y = address(y)});
}

void segment_mean_backward(const Tensor& dy, const Offsets& offsets, Tensor& dx, Accumulate accumulate) {
  count_elements(dy.numel() + memory_passes(accumulate) * dx.numel());
  backend_of("segment_mean", dy, dx)
      .segment_mean_backward({.segments = segments(offsets, dx.cols()),
                              .dy = address(dy),
                              .dx = address(dx),
                              .accumulate = accumulate});
}

void segment_max(const Tensor& x, const Offsets& offsets, Tensor& y, Tensor& rows) {
  count_elements(x.numel() + 2 * y.numel());
  backend_of("segment_max", x, y, rows)
      .segment_max({.segments = segments(offsets, x.cols()),
                    .x = address(x),
                    .y = address(y),
                    .rows = address<int32_t>(rows)});
}

void segment_max_backward(const Tensor& dy, const Offsets& offsets, const Tensor& rows, Tensor& dx) {
  count_elements(4 * dy.numel());
  backend_of("segment_max", dy, rows, dx)
      .segment_max_backward({.segments = segments(offsets, dx.cols()),
                             .dy = address(dy),
                             .rows = address<int32_t>(rows),
                             .dx = address(dx)});
}

}  // namespace qkv::kernels

#include "qkv/kernels/rotary.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void rotary(RotaryTensors a) {
  count_elements(a.x.rows() * a.x.cols() * (1 + memory_passes(a.accumulate)));
  backend_of("rotary", a.x, a.y, a.cosines, a.sines, a.positions)
      .rotary({.x = elements(a.x),
               .x_stride = a.x.row_stride(),
               .y = mutable_elements(a.y),
               .y_stride = a.y.row_stride(),
               .rows = a.x.rows(),
               .heads = a.heads,
               .d = a.x.cols() / a.heads,
               .rotated = 2 * a.cosines.cols(),
               .cosines = input(a.cosines),
               .sines = input(a.sines),
               .positions = input<int32_t>(a.positions),
               .direction = a.direction,
               .accumulate = a.accumulate});
}

}  // namespace qkv::kernels

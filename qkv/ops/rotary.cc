#include "qkv/ops/rotary.h"

#include "qkv/kernels/rotary.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {

Variable rotary(const Variable& x, int64_t heads, const RotaryTable& table, const Tensor& positions) {
  const ProfileScope profile("rotary");
  require_rows("rotary", x);
  require_f32("rotary", table.cosines);
  require_f32("rotary", table.sines);
  if (table.cosines.rank() != 2 || table.cosines.shape() != table.sines.shape() ||
      !table.cosines.contiguous() || !table.sines.contiguous()) {
    throw ShapeError(concat("rotary: expected contiguous cosines and sines [positions, r / 2], found ",
                            table.cosines.shape(), " and ", table.sines.shape()));
  }
  const Tensor places = as_ids("rotary", "positions", positions);
  const int64_t rows = x.value().rows(), cols = x.value().cols(), rotated = 2 * table.cosines.cols();
  if (heads < 1 || rotated == 0 || cols % heads != 0 || cols / heads < rotated || positions.numel() != rows) {
    throw ShapeError(concat("rotary: x ", x.shape(), " with ", positions.numel(),
                            " positions is not [tokens, ", heads, " heads * d] with d of at least ",
                            rotated));
  }
  const Tensor host_positions = to_host(places);
  for (const int32_t position : host_positions.values<int32_t>()) {
    if (position < 0 || position >= table.cosines.rows()) {
      throw DataError(
          concat("rotary: expected a position from 0 to ", table.cosines.rows() - 1, ", found ", position));
    }
  }
  const Device device = x.value().device();
  Tensor y = empty_like(x.value());
  kernels::RotaryTensors arguments{.x = x.value(),
                                   .y = y,
                                   .heads = heads,
                                   .cosines = from_host(table.cosines, device),
                                   .sines = from_host(table.sines, device),
                                   .positions = from_host(places, device)};
  kernels::rotary(arguments);
  if (!Tape::records({x})) return y;
  // The transpose of a rotation is its inverse.
  arguments.direction = kernels::Turn::back;
  arguments.x = arguments.y = Tensor();
  return Tape::record("rotary", y, {{x, false}}, [x, arguments](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::RotaryTensors backward = arguments;
    backward.x = dy;
    backward.y = slot.tensor;
    backward.accumulate = slot.accumulate;
    kernels::rotary(backward);
  });
}

}  // namespace qkv

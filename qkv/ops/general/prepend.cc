#include "qkv/ops/general/prepend.h"

#include "qkv/kernels/pointwise.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/profile.h"

namespace qkv {

Variable prepend(const Variable& one, const Variable& rows, int64_t sequences) {
  const ProfileScope profile("prepend");
  const Variable row = contiguous_f32("prepend", one), x = contiguous_f32("prepend", rows);
  const int64_t features = row.value().cols();
  if (row.shape() != Shape{1, features} || x.value().rank() != 2 || x.value().cols() != features ||
      sequences < 1 || x.value().rows() % sequences != 0) {
    throw ShapeError(concat("prepend: row ", row.shape(), " does not fit in front of ", sequences,
                            " equal sequences of ", x.shape()));
  }
  const int64_t length = x.value().rows() / sequences;
  Tensor y = Tensor::empty({sequences * (length + 1), features}, DType::f32, x.value().device());
  for (int64_t s = 0; s < sequences; ++s) {
    y.slice_rows(s * (length + 1), 1).copy_from(row.value());
    y.slice_rows(s * (length + 1) + 1, length).copy_from(x.value().slice_rows(s * length, length));
  }
  if (!Tape::records({row, x})) return y;
  return Tape::record("prepend", y, {{row, false}, {x, false}}, [=](const Tensor& dy) {
    for (int64_t s = 0; s < sequences && row.requires_grad(); ++s) {
      row.add_grad(dy.slice_rows(s * (length + 1), 1));
    }
    if (!x.requires_grad()) return;
    GradientSlot slot = x.gradient_slot();
    for (int64_t s = 0; s < sequences; ++s) {
      Tensor own = slot.tensor.slice_rows(s * length, length);
      kernels::copy(dy.slice_rows(s * (length + 1) + 1, length), own, slot.accumulate);
    }
  });
}

}  // namespace qkv

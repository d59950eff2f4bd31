#include "qkv/ops/general/softmax.h"

#include "qkv/kernels/label_loss.h"
#include "qkv/kernels/loss.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/profile.h"

namespace qkv {
namespace {

Variable over_rows(const char* operation, const Variable& input, bool log) {
  const ProfileScope profile(operation);
  const Variable x = contiguous_f32(operation, input);
  Tensor y = empty_like(x.value());
  if (log) {
    kernels::log_softmax(x.value(), {}, y);
  } else {
    kernels::softmax(x.value(), y);
  }
  if (!Tape::records({x})) return y;
  return Tape::record(operation, y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::softmax_backward(log, y, dy, slot.tensor, slot.accumulate);
  });
}

}  // namespace

Variable softmax(const Variable& x) { return over_rows("softmax", x, false); }
Variable log_softmax(const Variable& x) { return over_rows("log_softmax", x, true); }

}  // namespace qkv

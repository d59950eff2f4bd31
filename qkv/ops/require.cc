#include "qkv/ops/require.h"

namespace qkv {

void require_matrix(const char* operation, const Variable& x) {
  if (x.value().rank() != 2 || !x.value().contiguous()) {
    throw ShapeError(concat(operation, ": expected a contiguous [tokens, features], found ", x.shape()));
  }
}

void require_rows(const char* operation, const Variable& x) {
  if (x.value().rank() != 2)
    throw ShapeError(concat(operation, ": expected [tokens, features], found ", x.shape()));
}

void require_same(const char* operation, const Variable& x, const Variable& y) {
  require_matrix(operation, x);
  require_matrix(operation, y);
  if (x.shape() != y.shape()) {
    throw ShapeError(concat(operation, ": shapes differ: ", x.shape(), " and ", y.shape()));
  }
}

void require_dropout(const char* operation, const Dropout& dropout) {
  if (dropout.rate >= 0 && dropout.rate < 1 && dropout.threshold() < 65536) return;
  throw UsageError(
      concat(operation, ": expected a dropout rate of at least 0 and below 1, found ", dropout.rate));
}

GradientSlot gradient_slot_of(const Variable& x) {
  return x.requires_grad() ? x.gradient_slot() : GradientSlot{};
}

}  // namespace qkv

#include "qkv/ops/require.h"

#include <algorithm>
#include <utility>

namespace qkv {

void require_f32(const char* operation, const Tensor& x) {
  if (!x.defined()) throw ShapeError(concat(operation, ": expected f32 values, found an undefined tensor"));
  if (x.dtype() != DType::f32) {
    throw ShapeError(concat(operation, ": expected f32, found ", name_of(x.dtype()), " ", x.shape()));
  }
}

bool is_activation(const Tensor& x) {
  return x.dtype() == DType::f32 || (x.dtype() == DType::bf16 && x.device() != Device::cpu);
}

void require_activation(const char* operation, const Tensor& x) {
  if (!x.defined()) throw ShapeError(concat(operation, ": expected values, found an undefined tensor"));
  if (is_activation(x)) return;
  throw ShapeError(concat(operation, ": expected ", x.device() == Device::cpu ? "f32" : "f32 or bf16",
                          ", found ", name_of(x.dtype()), " ", x.shape()));
}

Tensor as_ids(const char* operation, const char* what, const Tensor& ids) {
  const bool wide = ids.defined() && ids.dtype() == DType::i64;
  if (!ids.defined() || (ids.dtype() != DType::i32 && !wide) || !ids.contiguous()) {
    throw ShapeError(concat(operation, ": expected ", what, " of contiguous i32 or i64, found ",
                            ids.defined() ? concat(name_of(ids.dtype()), " ", ids.shape()) : "none"));
  }
  if (!wide) return ids;
  const Tensor host = to_host(ids);
  Tensor narrow = Tensor::empty(ids.shape(), DType::i32);
  std::ranges::transform(host.values<int64_t>(), narrow.data<int32_t>(), [&](int64_t id) {
    if (std::in_range<int32_t>(id)) return static_cast<int32_t>(id);
    throw DataError(concat(operation, ": ", what, ": expected numbers of 32 bits, found ", id));
  });
  return from_host(narrow, ids.device());
}

void require_matrix(const char* operation, const Variable& x) {
  require_rows(operation, x);
  if (!x.value().contiguous()) {
    throw ShapeError(concat(operation, ": expected a contiguous [tokens, features], found columns ",
                            x.shape(), " of a wider matrix"));
  }
}

void require_rows(const char* operation, const Variable& x) {
  if (!x.defined())
    throw UsageError(concat(operation, ": expected a variable with a value, found an undefined one"));
  require_activation(operation, x.value());
  if (x.value().rank() != 2)
    throw ShapeError(concat(operation, ": expected [tokens, features], found ", x.shape()));
}

void require_same_dtype(const char* operation, const Variable& x, const Variable& y) {
  const DType first = x.value().dtype(), second = y.value().dtype();
  if (first == second) return;
  throw ShapeError(concat(operation, ": expected operands of one dtype, found ", name_of(first), " and ",
                          name_of(second)));
}

void require_same(const char* operation, const Variable& x, const Variable& y) {
  require_matrix(operation, x);
  require_matrix(operation, y);
  if (x.shape() != y.shape()) {
    throw ShapeError(concat(operation, ": shapes differ: ", x.shape(), " and ", y.shape()));
  }
  require_same_dtype(operation, x, y);
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

#include "qkv/kernels/reference/broadcast.h"

#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {
namespace {

double apply(BinaryOp op, double x, double y) {
  switch (op) {
    case BinaryOp::add:
      return x + y;
    case BinaryOp::subtract:
      return x - y;
    case BinaryOp::multiply:
      return x * y;
    case BinaryOp::divide:
      return x / y;
  }
  return 0;
}

}  // namespace

void binary(const Broadcast& a) {
  int64_t total = 1;
  for (const int64_t extent : a.extents) total *= extent;
  for (int64_t i = 0; i < total; ++i) {
    const Broadcast::Places at = a.places(i);
    store_element(a.z, at.z, apply(a.op, get(a.x, at.x), get(a.y, at.y)), a.accumulate);
  }
}

void sum_axis(const AxisSum& a) {
  for (int64_t o = 0; o < a.outer; ++o) {
    for (int64_t i = 0; i < a.inner; ++i) {
      double sum = 0;
      for (int64_t n = 0; n < a.count; ++n) sum += get(a.x, (o * a.count + n) * a.inner + i);
      store_element(a.y, o * a.inner + i, a.factor * sum, a.accumulate);
    }
  }
}

}  // namespace qkv::kernels::reference

#include "qkv/ops/general/distance_scores.h"

#include <array>

#include "qkv/kernels/broadcast.h"
#include "qkv/kernels/matmul.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

constexpr const char* kName = "distance_scores";

// A temporary of one head.
Tensor scratch(int64_t rows, int64_t cols, Device device) {
  const MemoryScope memory(MemoryUse::scratch);
  return Tensor::empty({rows, cols}, DType::f32, device);
}

// x y^T
Tensor products(const Tensor& x, const Tensor& y) {
  Tensor z = scratch(x.rows(), y.rows(), x.device());
  const std::array blocks{QuantizedTensor{y, {}}};
  kernels::matmul(x, kernels::WeightView(blocks), {}, z, Accumulate::no);
  return z;
}

// Of z = x y^T: adds the gradients of columns of x and y.
void products_backward(const Tensor& dz, const Tensor& x, const Tensor& y, GradientSlot dx, GradientSlot dy) {
  if (dx.tensor.defined())
    kernels::matmul(dz, kernels::PackedMatrix::plain({&y, 1}), {}, dx.tensor, dx.accumulate);
  if (dy.tensor.defined()) kernels::matmul_transposed_a(dz, x, dy.tensor, dy.accumulate);
}

GradientSlot columns(const GradientSlot& slot, int64_t first, int64_t count) {
  if (!slot.tensor.defined()) return {};
  Tensor whole = slot.tensor;
  return {whole.columns(first, count), slot.accumulate};
}

}  // namespace

Variable distance_scores(const Variable& query, const Variable& key, const Variable& of_keys,
                         const Variable& of_queries, int64_t heads, float scale) {
  const ProfileScope profile(kName);
  for (const Variable* x : {&query, &key, &of_keys, &of_queries}) {
    require_rows(kName, *x);
    require_f32(kName, x->value());
  }
  const int64_t n = query.value().rows(), width = query.value().cols();
  if (n < 1 || heads < 1 || width % heads != 0 || key.shape() != query.shape() ||
      of_keys.shape() != Shape{2 * n - 1, width} || of_queries.shape() != of_keys.shape()) {
    throw ShapeError(concat(kName, ": query ", query.shape(), ", key ", key.shape(), ", of_keys ",
                            of_keys.shape(), " and of_queries ", of_queries.shape(), " are not [n, ", heads,
                            " heads * d] and [2 n - 1, ", heads, " heads * d]"));
  }
  const int64_t d = width / heads;
  const Device device = query.value().device();
  Tensor scores = Tensor::empty({heads, n * n}, DType::f32, device);
  const auto of_head = [n](Tensor all, int64_t h) { return all.slice_rows(h, 1).reshape({n, n}); };
  for (int64_t h = 0; h < heads; ++h) {
    const auto own = [&](const Variable& x) { return x.value().columns(h * d, d); };
    Tensor to = of_head(scores, h);
    kernels::add_distances(products(own(query), own(of_keys)), products(own(key), own(of_queries)), scale,
                           to);
  }
  const Tensor y = scores.reshape({1, heads, n, n});
  if (!Tape::records({query, key, of_keys, of_queries})) return y;
  return Tape::record(kName, y, {query, key, of_keys, of_queries}, [=](const Tensor& dy) {
    const GradientSlot d_query = gradient_slot_of(query), d_key = gradient_slot_of(key),
                       d_of_keys = gradient_slot_of(of_keys), d_of_queries = gradient_slot_of(of_queries);
    Tensor dx = scratch(n, 2 * n - 1, device), dz = scratch(n, 2 * n - 1, device);
    const Tensor all = dy.reshape({heads, n * n});
    for (int64_t h = 0; h < heads; ++h) {
      const auto own = [&](const Variable& x) { return x.value().columns(h * d, d); };
      kernels::add_distances_backward(of_head(all, h), scale, dx, dz);
      products_backward(dx, own(query), own(of_keys), columns(d_query, h * d, d),
                        columns(d_of_keys, h * d, d));
      products_backward(dz, own(key), own(of_queries), columns(d_key, h * d, d),
                        columns(d_of_queries, h * d, d));
    }
  });
}

}  // namespace qkv

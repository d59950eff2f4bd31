#include "qkv/ops/general/distance_scores.h"

#include <array>

#include "qkv/kernels/broadcast.h"
#include "qkv/kernels/matmul.h"
#include "qkv/kernels/pointwise.h"
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

// scale x y^T
Tensor products(const Tensor& x, const Tensor& y, float scale) {
  Tensor z = scratch(x.rows(), y.rows(), x.device());
  const std::array blocks{QuantizedTensor{y, {}}};
  kernels::matmul(x, kernels::WeightView(blocks), {}, z, Accumulate::no);
  kernels::scale(z, scale, z, Accumulate::no);
  return z;
}

// Of z = scale x y^T: adds the gradients of columns of x and y. dz is overwritten.
void products_backward(Tensor& dz, const Tensor& x, const Tensor& y, float scale, GradientSlot dx,
                       GradientSlot dy) {
  kernels::scale(dz, scale, dz, Accumulate::no);
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
                         const Variable& of_queries, const Offsets& offsets, int64_t heads, float scale) {
  const ProfileScope profile(kName);
  for (const Variable* x : {&query, &key, &of_keys, &of_queries}) {
    require_rows(kName, *x);
    require_f32(kName, x->value());
  }
  const int64_t tokens = query.value().rows(), width = query.value().cols(), longest = offsets.max_length();
  if (longest < 1 || heads < 1 || width % heads != 0 || offsets.tokens() != tokens ||
      key.shape() != query.shape() || of_keys.shape() != Shape{2 * longest - 1, width} ||
      of_queries.shape() != of_keys.shape()) {
    throw ShapeError(concat(kName, ": query ", query.shape(), ", key ", key.shape(), ", of_keys ",
                            of_keys.shape(), " and of_queries ", of_queries.shape(), " are not [",
                            offsets.tokens(), ", ", heads, " heads * d] and [2 * ", longest, " - 1, ", heads,
                            " heads * d]"));
  }
  const int64_t d = width / heads, sequences = offsets.sequences();
  const Device device = query.value().device();
  Tensor scores = Tensor::zeros({sequences * heads * longest, longest}, DType::f32, device);
  // Calls visit(rows of the sequence's and the head's square, first token, length).
  const auto for_sequences = [=](int64_t h, const auto& all, const auto& visit) {
    for (int64_t s = 0; s < sequences; ++s) {
      const int64_t n = offsets.length(s);
      auto square = all;
      if (n > 0) visit(square.slice_rows((s * heads + h) * longest, n).columns(0, n), offsets.begin(s), n);
    }
  };
  for (int64_t h = 0; h < heads; ++h) {
    const auto own = [&](const Variable& x) { return x.value().columns(h * d, d); };
    const Tensor seen_from_queries = products(own(query), own(of_keys), scale),
                 seen_from_keys = products(own(key), own(of_queries), scale);
    for_sequences(h, scores, [&](Tensor square, int64_t first, int64_t n) {
      kernels::add_distances(seen_from_queries.slice_rows(first, n), seen_from_keys.slice_rows(first, n),
                             square);
    });
  }
  const Tensor y = scores.reshape({sequences, heads, longest, longest});
  if (!Tape::records({query, key, of_keys, of_queries})) return y;
  return Tape::record(kName, y, {query, key, of_keys, of_queries}, [=](const Tensor& dy) {
    const GradientSlot d_query = gradient_slot_of(query), d_key = gradient_slot_of(key),
                       d_of_keys = gradient_slot_of(of_keys), d_of_queries = gradient_slot_of(of_queries);
    Tensor from_queries = scratch(tokens, 2 * longest - 1, device), from_keys = empty_like(from_queries);
    const Tensor all = dy.reshape({sequences * heads * longest, longest});
    for (int64_t h = 0; h < heads; ++h) {
      const auto own = [&](const Variable& x) { return x.value().columns(h * d, d); };
      from_queries.fill_zero();
      from_keys.fill_zero();
      for_sequences(h, all, [&](const Tensor& square, int64_t first, int64_t n) {
        Tensor x = from_queries.slice_rows(first, n), z = from_keys.slice_rows(first, n);
        kernels::add_distances_backward(square, x, z);
      });
      products_backward(from_queries, own(query), own(of_keys), scale, columns(d_query, h * d, d),
                        columns(d_of_keys, h * d, d));
      products_backward(from_keys, own(key), own(of_queries), scale, columns(d_key, h * d, d),
                        columns(d_of_queries, h * d, d));
    }
  });
}

}  // namespace qkv

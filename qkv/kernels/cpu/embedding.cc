#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/scratch.h"
#include "qkv/tensor/block_dtypes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/embedding.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/dropout-inl.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// A vector of a row's values, for any dtype.
template <class P>
HWY_INLINE FloatVector load_weight(const float* from, FloatVector /*scale*/, P part) {
  return load(Floats(), from, part);
}
template <class Half, class P>
HWY_INLINE FloatVector load_weight(const Half* from, FloatVector /*scale*/, P part) {
  return load_halves(from, part);
}
template <class P>
HWY_INLINE FloatVector load_weight(const int8_t* from, FloatVector scale, P part) {
  const hn::Rebind<int8_t, Floats> bytes;
  const hn::RebindToSigned<Floats> whole;
  return hn::Mul(hn::ConvertTo(Floats(), hn::PromoteTo(whole, load(bytes, from, part))), scale);
}

template <class Drop, class Weight>
void embed_rows(const EmbeddingForward& a, int64_t begin, int64_t end) {
  const Floats d;
  Drop drop(a.dropout);
  const auto* const table = static_cast<const Weight*>(a.table.data);
  const auto factor = hn::Set(d, a.factor);
  for (int64_t t = begin; t < end; ++t) {
    const Weight* from = table + a.ids[t] * a.table.stride;
    const auto scale = hn::Set(d, a.table.scales == nullptr ? 1.0f : a.table.scales[a.ids[t]]);
    const float* place = a.positions == nullptr ? nullptr : a.positions + a.position[t] * a.cols;
    float* to = a.y + t * a.cols;
    for_dropped_row(d, drop, t, a.cols, [&](auto part, int64_t column, int64_t i) HWY_ATTR {
      auto v = hn::Mul(load_weight(from + column, scale, part), factor);
      if (place != nullptr) v = hn::Add(v, load(d, place + column, part));
      store(d, drop.apply(d, v, i), to + column, part);
    });
  }
}

template <class Weight>
void embed_dropped(const EmbeddingForward& a, int64_t begin, int64_t end) {
  a.dropout.active() ? embed_rows<DropSome, Weight>(a, begin, end)
                     : embed_rows<KeepAll, Weight>(a, begin, end);
}

// Rows in blocks are widened to f32, one at a time.
void embed_blocks(const EmbeddingForward& a, int64_t begin, int64_t end) {
  EmbeddingForward wide = a;
  float* const row = scratch<float>(Scratch::widened, a.cols);
  wide.table.data = row;
  wide.table.stride = 0;
  for (int64_t t = begin; t < end; ++t) {
    widen_blocks(
        a.table.dtype,
        static_cast<const std::byte*>(a.table.data) + bytes_of(a.table.dtype, a.ids[t] * a.table.stride),
        a.cols, row);
    embed_dropped<float>(wide, t, t + 1);
  }
}

void embed_range(const EmbeddingForward& a, int64_t begin, int64_t end) {
  switch (a.table.dtype) {
    case DType::bf16:
      return embed_dropped<BFloat16>(a, begin, end);
    case DType::f16:
      return embed_dropped<Float16>(a, begin, end);
    case DType::i8:
      return embed_dropped<int8_t>(a, begin, end);
    case DType::f32:
      return embed_dropped<float>(a, begin, end);
    default:
      return embed_blocks(a, begin, end);
  }
}

// The columns [begin, end) of all tokens; begin is a multiple of 8, and there are at most kDropoutColumns.
template <class Drop>
void scatter_columns(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                     const Dropout& dropout, float* table_gradient, int64_t begin, int64_t end) {
  const Floats d;
  Drop drop(dropout);
  const auto factors = hn::Set(d, factor);
  for (int64_t t = 0; t < tokens; ++t) {
    const float* from = dy + t * cols + begin;
    float* to = table_gradient + ids[t] * cols + begin;
    drop.draw(t, begin, end - begin);
    for_vectors(d, end - begin, [&](auto part, int64_t i) HWY_ATTR {
      const auto v = drop.apply(d, load(d, from + i, part), i);
      store(d, hn::MulAdd(v, factors, load(d, to + i, part)), to + i, part);
    });
  }
}

void scatter_range(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                   const Dropout& dropout, float* table_gradient, int64_t begin, int64_t end) {
  if (dropout.active()) {
    scatter_columns<DropSome>(dy, ids, factor, tokens, cols, dropout, table_gradient, begin, end);
  } else {
    scatter_columns<KeepAll>(dy, ids, factor, tokens, cols, dropout, table_gradient, begin, end);
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(embed_range);
HWY_EXPORT(scatter_range);

// Columns per piece of the backward pass: a whole vector's worth of Philox blocks with AVX-512.
constexpr int64_t kScatterColumns = 128;

}  // namespace

void embedding_forward(const EmbeddingForward& arguments) {
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(arguments.cols, 1));
  parallel_for(arguments.tokens, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(embed_range)(arguments, begin, end);
  });
}

void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                        int64_t /*vocabulary*/, const Dropout& dropout, float* table_gradient) {
  // Tokens may share table rows, so work is split by columns.
  parallel_for(cols, kScatterColumns, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(scatter_range)(dy, ids, factor, tokens, cols, dropout, table_gradient, begin, end);
  });
}

}  // namespace qkv::kernels::cpu
#endif

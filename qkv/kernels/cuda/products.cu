// Products with weights.

#include "qkv/kernels/cuda/products.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/cuda/parts.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {
namespace {

// The rows of all blocks, one after the other; or weights that are read in place.
struct RightHandSide final : PreparedMatrix {
  Storage packed;
  int64_t rows = 0, cols = 0;  // of `packed`
  bool transposed = false;
  DType operands = DType::f32;
  std::vector<WeightRows> in_place;

  Operand operand() const { return {packed.get(), cols, transposed}; }
};

// Views of which each row is multiplied by one: their blocks, those of a view side by side.
struct Choices final : PreparedMatrix {
  std::vector<WeightRows> layouts;  // of the first view; the others differ in their addresses alone
  std::vector<bool> aligned;
  std::optional<Array<WeightRows>> blocks;
  std::optional<Array<const float*>> biases;
};

void copy_widened(const Matrix& a, float* to) {
  for_each(a.rows * a.cols,
           [=] QKV_DEVICE(int64_t i) { to[i] = get(a.data, i / a.cols * a.stride + i % a.cols); });
}

// A matrix as an operand of a product of f32 or bf16. One of the other dtype is copied.
class Converted {
 public:
  Converted(const Matrix& a, DType dtype, bool transposed = false)
      : operand_{a.data.data, a.stride, transposed} {
    if (a.data.dtype == dtype) return;
    if (dtype == DType::bf16) {
      rounded_.emplace(a, 1);
      operand_ = {rounded_->part(0), rounded_->stride(), transposed};
    } else {
      widened_.emplace(a.rows * a.cols);
      copy_widened(a, widened_->data());
      operand_ = {widened_->data(), a.cols, transposed};
    }
  }
  const Operand& operand() const { return operand_; }

 private:
  std::optional<Parts> rounded_;
  std::optional<Array<float>> widened_;
  Operand operand_;
};

std::unique_ptr<const PreparedMatrix> pack(std::span<const Matrix> blocks, DType operands, bool transposed) {
  auto b = std::make_unique<RightHandSide>();
  b->cols = blocks.front().cols;
  b->transposed = transposed;
  b->operands = operands;
  for (const Matrix& block : blocks) b->rows += block.rows;
  b->packed = memory().allocate(bytes_of(operands, b->rows * b->cols));
  std::byte* to = b->packed.get();
  for (const Matrix& block : blocks) {
    if (operands == DType::bf16) {
      split(block, 1, reinterpret_cast<uint16_t*>(to));
    } else {
      memory().copy(CopyDirection::on_device,
                    {reinterpret_cast<const std::byte*>(block.data.f32()), bytes_of(operands, block.stride)},
                    {to, bytes_of(operands, block.cols)}, bytes_of(operands, block.cols),
                    static_cast<size_t>(block.rows));
    }
    to += bytes_of(operands, block.rows * block.cols);
  }
  return b;
}

// The rows of a rounded to 8 bits with a zero point, and widened again: integers times a scale, which a
// product in f32 sums nearly exactly. As reference/matmul.cc.
void copy_quantized(const Matrix& a, float* to) {
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    const auto x = [&](int64_t c) { return get(a.data, thread.block * a.stride + c); };
    float high = 0, low = 0;
    bool finite = true;
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      const float value = x(c);
      if (value > high) high = value;
      if (-value > low) low = -value;
      finite = finite && value - value == 0;
    }
    high = thread.maximum(high);
    low = -thread.maximum(low);
    finite = thread.maximum(finite ? 0.0f : 1.0f) == 0;
    const float range = high - low, inverse = range > 1e-30f ? 255 / range : 0, scale = range / 255;
    const float zero = ::nearbyintf(-low * inverse);
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      float step = ::nearbyintf(x(c) * inverse) + zero;
      step = step < 0 ? 0 : step > 255 ? 255 : step;
      to[thread.block * a.cols + c] = !finite ? NAN : inverse == 0 ? 0 : (step - zero) * scale;
    }
  });
}

// Rounded to 8 bits in groups of 32, as inputs of weights in blocks are.
void copy_rounded_by_groups(const Matrix& a, float* to) {
  constexpr int kGroup = 32;
  for_each(a.rows * (a.cols / kGroup), [=] QKV_DEVICE(int64_t n) {
    const int64_t row = n / (a.cols / kGroup), first = n % (a.cols / kGroup) * kGroup;
    const auto x = [&](int i) { return get(a.data, row * a.stride + first + i); };
    float largest = 0;
    bool finite = true;
    for (int i = 0; i < kGroup; ++i) {
      const float magnitude = ::fabsf(x(i));
      if (magnitude > largest) largest = magnitude;
      finite = finite && magnitude - magnitude == 0;
    }
    const float inverse = largest > 1e-30f ? 127 / largest : 0;
    for (int i = 0; i < kGroup; ++i)
      to[row * a.cols + first + i] = finite ? ::nearbyintf(x(i) * inverse) * (largest / 127) : NAN;
  });
}

// The products of the parts of f32 inputs, the smallest first, and weights of bf16.
void multiply_parts(Gemm product, const Matrix& a) {
  const Parts parts(a, kExactParts);
  for (int part = kExactParts - 1; part >= 0; --part) {
    product.a = {parts.part(part), parts.stride()};
    gemm(product);
    product.accumulate = true;
    product.bias = nullptr;
  }
}

// Many rows times weights that are read in place: those of bf16 by the instructions for bf16, others widened.
void multiply_many_rows(Gemm product, const Matrix& a, const WeightRows& w) {
  if (w.dtype == DType::bf16) {
    product.operands = DType::bf16;
    if (a.data.dtype == DType::bf16) return gemm(product);
    if (product.c.dtype == DType::f32) return multiply_parts(product, a);
    const Unrounded sums(product);
    multiply_parts(sums.product(), a);
    return sums.store();
  }
  const Converted left(a, DType::f32);
  product.a = left.operand();
  if (w.dtype == DType::f32) return gemm(product);
  const Array<float> wide(w.rows * w.cols);
  widen_rows(w, wide.data());
  product.b = {wide.data(), w.cols, true};
  gemm(product);
}

// The inputs of weights in place: those of weights of 8 bits and in blocks are rounded.
class Inputs {
 public:
  Inputs(const Matrix& a, DType weights) : matrix_(a) {
    if (weights != DType::i8 && !in_blocks(weights)) return;
    rounded_.emplace(a.rows * a.cols);
    if (weights == DType::i8) {
      copy_quantized(a, rounded_->data());
    } else {
      copy_rounded_by_groups(a, rounded_->data());
    }
    matrix_ = {rounded_->data(), a.rows, a.cols, a.cols};
  }
  const Matrix& matrix() const { return matrix_; }

 private:
  std::optional<Array<float>> rounded_;
  Matrix matrix_;
};

void multiply_in_place(const Matrix& a, const RightHandSide& b, const float* bias, const MutableMatrix& c,
                       Accumulate accumulate) {
  const Inputs inputs(a, b.in_place.front().dtype);
  const Matrix& x = inputs.matrix();
  int64_t first = 0;
  for (const WeightRows& w : b.in_place) {
    const float* const own_bias = bias == nullptr ? nullptr : bias + first;
    const MutableElements to = c.data + first;
    const bool adds = accumulate == Accumulate::yes;
    if (x.rows <= kFewRows) {
      multiply_few_rows(x.rows, x.data, x.stride, w, own_bias, to, c.stride, adds);
    } else {
      multiply_many_rows({.m = x.rows,
                          .n = w.rows,
                          .k = x.cols,
                          .a = {x.data.data, x.stride},
                          .b = {w.data, w.stride, true},
                          .bias = own_bias,
                          .c = to,
                          .c_stride = c.stride,
                          .accumulate = adds},
                         x, w);
    }
    first += w.rows;
  }
}

}  // namespace

std::unique_ptr<const PreparedMatrix> pack_transposed(std::span<const Matrix> blocks, DType operands) {
  return pack(blocks, operands, true);
}
std::unique_ptr<const PreparedMatrix> pack_plain(std::span<const Matrix> blocks, DType operands) {
  return pack(blocks, operands, false);
}

std::unique_ptr<const PreparedMatrix> view(std::span<const WeightRows> blocks) {
  auto b = std::make_unique<RightHandSide>();
  b->in_place.assign(blocks.begin(), blocks.end());
  return b;
}

void matmul(const Matrix& a, const PreparedMatrix& prepared, const float* bias, const MutableMatrix& c,
            Accumulate accumulate) {
  const auto& b = static_cast<const RightHandSide&>(prepared);
  if (a.rows == 0) return;
  if (!b.in_place.empty()) return multiply_in_place(a, b, bias, c, accumulate);
  const Converted left(a, b.operands);
  gemm({.m = a.rows,
        .n = c.cols,
        .k = a.cols,
        .a = left.operand(),
        .b = b.operand(),
        .operands = b.operands,
        .bias = bias,
        .c = c.data,
        .c_stride = c.stride,
        .accumulate = accumulate == Accumulate::yes});
}

std::unique_ptr<const PreparedMatrix> choices(std::span<const PreparedMatrix* const> views,
                                              std::span<const float* const> biases) {
  const auto& first = static_cast<const RightHandSide&>(*views.front()).in_place;
  auto all = std::make_unique<Choices>();
  all->layouts = first;
  all->aligned.assign(first.size(), true);
  std::vector<WeightRows> blocks;
  for (const PreparedMatrix* one : views) {
    for (size_t i = 0; i < first.size(); ++i) {
      const WeightRows& w = blocks.emplace_back(static_cast<const RightHandSide&>(*one).in_place[i]);
      all->aligned[i] =
          all->aligned[i] &&
          rows_are_aligned(w.data, w.stride * static_cast<int64_t>(w.dtype == DType::f32 ? 4 : 2));
    }
  }
  all->blocks.emplace(std::span<const WeightRows>(blocks));
  all->biases.emplace(biases);
  return all;
}

void matmul_chosen(const Matrix& a, const PreparedMatrix& prepared, const int32_t* chosen,
                   const MutableMatrix& c) {
  const auto& all = static_cast<const Choices&>(prepared);
  if (c.rows == 0) return;
  const Inputs inputs(a, all.layouts.front().dtype);
  int64_t first = 0;
  for (size_t i = 0; i < all.layouts.size(); ++i) {
    multiply_chosen_rows({.rows = c.rows,
                          .repeats = c.rows / a.rows,
                          .x = inputs.matrix().data,
                          .x_stride = inputs.matrix().stride,
                          .layout = all.layouts[i],
                          .aligned = all.aligned[i],
                          .weights = all.blocks->data() + i,
                          .step = std::ssize(all.layouts),
                          .biases = all.biases->data(),
                          .first = first,
                          .chosen = chosen,
                          .c = c.data + first,
                          .c_stride = c.stride});
    first += all.layouts[i].rows;
  }
}

void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                         DType operands) {
  if (a.data.dtype == DType::bf16 && b.data.dtype == DType::bf16) operands = DType::bf16;  // exact
  const Converted left(a, operands, true), right(b, operands);
  gemm({.m = a.cols,
        .n = b.cols,
        .k = a.rows,
        .a = left.operand(),
        .b = right.operand(),
        .operands = operands,
        .c = c.data,
        .c_stride = c.stride,
        .accumulate = accumulate == Accumulate::yes});
}

void batched_product(const BatchedProduct& a) {
  gemm({.m = a.m,
        .n = a.n,
        .k = a.k,
        .a = {a.x, a.x_transposed ? a.m : a.k, a.x_transposed, a.m * a.k},
        .b = {a.y, a.y_transposed ? a.k : a.n, a.y_transposed, a.k * a.n},
        .c = a.z,
        .c_stride = a.n,
        .accumulate = a.accumulate == Accumulate::yes,
        .batch = a.batch,
        .c_batch_stride = a.m * a.n});
}

}  // namespace qkv::kernels::cuda

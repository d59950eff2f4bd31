// Products of few rows, as in decoding: the weights are read once, as they are stored, and bound the time.

#include <type_traits>

#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/products.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {
namespace {

constexpr int64_t kWarps = kThreads / Thread::kLanes;

template <DType dtype>
constexpr int64_t kRowBytes = dtype == DType::f32 ? 4 : 2;  // of a number of the row, for its alignment

// The products of a row of the weights with rows first_input and up of x, of which those from x.rows on are
// repeated. A lane sums every 32nd group of eight columns. `most` is a constant, so that the sums stay in
// registers; a sum is computed by the same instructions for any number of rows.
template <DType dtype, DType x_dtype, int most>
QKV_DEVICE void sum_row(const Thread& thread, const WeightRows& x, bool aligned_inputs, int64_t first_input,
                        const WeightRows& w, bool aligned_weights, int64_t row, float* sums) {
  const auto input = [&](int r) { return first_input + (r < x.rows ? r : 0); };
  QKV_UNROLL for (int r = 0; r < most; ++r) sums[r] = 0;
  int64_t col = kEight * thread.lane();
  for (; col + kEight <= w.cols; col += kEight * thread.lanes()) {
    float weights[kEight], inputs[kEight];
    eight_elements<dtype>(w, row, col, aligned_weights, weights);
    QKV_UNROLL for (int r = 0; r < most; ++r) {
      eight_elements<x_dtype>(x, input(r), col, aligned_inputs, inputs);
      QKV_UNROLL for (int i = 0; i < kEight; ++i) sums[r] = ::fmaf(weights[i], inputs[i], sums[r]);
    }
  }
  for (; col < w.cols; ++col) {  // the lane with the rest of the row
    const float weight = element<dtype>(w, row, col);
    QKV_UNROLL for (int r = 0; r < most; ++r) sums[r] =
        ::fmaf(weight, element<x_dtype>(x, input(r), col), sums[r]);
  }
  QKV_UNROLL for (int r = 0; r < most; ++r) sums[r] = Thread::warp_sum(sums[r]);
}

// A warp for each row of the weights.
template <DType dtype, DType x_dtype, int most>
void multiply(const WeightRows& x, const WeightRows& w, const float* bias, const MutableElements& c,
              int64_t c_stride, bool accumulate) {
  const bool aligned_weights = rows_are_aligned(w.data, w.stride * kRowBytes<dtype>);
  const bool aligned_inputs = rows_are_aligned(x.data, x.stride * kRowBytes<x_dtype>);
  launch((w.rows + kWarps - 1) / kWarps, [=] QKV_DEVICE(const Thread& thread) {
    for (int64_t warp = thread.warp(); warp < kWarps; warp += thread.warps()) {
      const int64_t row = thread.block * kWarps + warp;
      if (row >= w.rows) return;
      float sums[most];
      sum_row<dtype, x_dtype, most>(thread, x, aligned_inputs, 0, w, aligned_weights, row, sums);
      QKV_UNROLL for (int r = 0; r < most; ++r) {
        const float sum = sums[r] + (bias != nullptr ? bias[row] : 0.0f);
        if (thread.lane() == 0 && r < x.rows)
          put(c, r * c_stride + row, sum, accumulate ? Accumulate::yes : Accumulate::no);
      }
    }
  });
}

// A warp for each row of the chosen weights.
template <DType dtype, DType x_dtype>
void multiply_chosen(const ChosenRows& a) {
  const WeightRows x{a.x.data, a.x.dtype, nullptr, 1, a.layout.cols, a.x_stride};
  const bool aligned_inputs = rows_are_aligned(x.data, x.stride * kRowBytes<x_dtype>);
  const int64_t blocks = (a.layout.rows + kWarps - 1) / kWarps;
  launch(a.rows * blocks, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t r = thread.block / blocks;
    const int64_t choice = a.chosen[r];
    const WeightRows w = a.weights[choice * a.step];
    const float* const bias = a.biases[choice];
    for (int64_t warp = thread.warp(); warp < kWarps; warp += thread.warps()) {
      const int64_t row = thread.block % blocks * kWarps + warp;
      if (row >= w.rows) return;
      float sum[1];
      sum_row<dtype, x_dtype, 1>(thread, x, aligned_inputs, r / a.repeats, w, a.aligned, row, sum);
      if (thread.lane() == 0)
        put(a.c, r * a.c_stride + row, sum[0] + (bias != nullptr ? bias[a.first + row] : 0.0f),
            Accumulate::no);
    }
  });
}

// Calls body(dtype of the weights, dtype of the inputs).
template <class Body>
void with_dtypes(DType weights, DType inputs, const Body& body) {
  with_dtype(weights, [&](auto dtype) {
    // Inputs of other weights have been rounded to 8 bits, which are in f32.
    constexpr bool kAnyInputs = dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
    if constexpr (kAnyInputs) {
      if (inputs == DType::bf16) return body(dtype, std::integral_constant<DType, DType::bf16>());
    }
    body(dtype, std::integral_constant<DType, DType::f32>());
  });
}

template <DType dtype, DType x_dtype>
void multiply_rows(const WeightRows& x, const WeightRows& w, const float* bias, const MutableElements& c,
                   int64_t c_stride, bool accumulate) {
  const auto run = [&]<int most>() { multiply<dtype, x_dtype, most>(x, w, bias, c, c_stride, accumulate); };
  if (x.rows == 1) return run.template operator()<1>();
  if (x.rows == 2) return run.template operator()<2>();
  if (x.rows <= 4) return run.template operator()<4>();
  return run.template operator()<kFewRows>();
}

}  // namespace

void multiply_few_rows(int64_t rows, const Elements& x, int64_t x_stride, const WeightRows& w,
                       const float* bias, const MutableElements& c, int64_t c_stride, bool accumulate) {
  const WeightRows inputs{x.data, x.dtype, nullptr, rows, w.cols, x_stride};
  with_dtypes(w.dtype, x.dtype, [&](auto dtype, auto x_dtype) {
    multiply_rows<dtype.value, x_dtype.value>(inputs, w, bias, c, c_stride, accumulate);
  });
}

void multiply_chosen_rows(const ChosenRows& rows) {
  with_dtypes(rows.layout.dtype, rows.x.dtype,
              [&](auto dtype, auto x_dtype) { multiply_chosen<dtype.value, x_dtype.value>(rows); });
}

}  // namespace qkv::kernels::cuda

// Products of few rows, as in decoding: the weights are read once, as they are stored, and bound the time.

#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/products.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {
namespace {

// A warp for each row of the weights; a lane sums every 32nd group of eight columns. `most` is a constant, so
// that the sums stay in registers; a sum is computed by the same instructions for any number of rows.
template <DType dtype, DType x_dtype, int most>
void multiply(const WeightRows& x, const WeightRows& w, const float* bias, const MutableElements& c,
              int64_t c_stride, bool accumulate) {
  const bool aligned_weights = rows_are_aligned(w.data, w.stride * (dtype == DType::f32 ? 4 : 2));
  const bool aligned_inputs = rows_are_aligned(x.data, x.stride * (x_dtype == DType::f32 ? 4 : 2));
  constexpr int64_t kWarps = kThreads / Thread::kLanes;
  launch((w.rows + kWarps - 1) / kWarps, [=] QKV_DEVICE(const Thread& thread) {
    for (int64_t warp = thread.warp(); warp < kWarps; warp += thread.warps()) {
      const int64_t row = thread.block * kWarps + warp;
      if (row >= w.rows) return;
      float sums[most] = {};
      const auto input = [&](int r) { return r < x.rows ? r : 0; };
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
      QKV_UNROLL for (int r = 0; r < most; ++r) {
        const float sum = Thread::warp_sum(sums[r]) + (bias != nullptr ? bias[row] : 0.0f);
        if (thread.lane() == 0 && r < x.rows)
          put(c, r * c_stride + row, sum, accumulate ? Accumulate::yes : Accumulate::no);
      }
    }
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
  with_dtype(w.dtype, [&](auto dtype) {
    // Inputs of other weights have been rounded to 8 bits, which are in f32.
    constexpr bool kAnyInputs = dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
    if constexpr (kAnyInputs) {
      if (x.dtype == DType::bf16)
        return multiply_rows<dtype.value, DType::bf16>(inputs, w, bias, c, c_stride, accumulate);
    }
    multiply_rows<dtype.value, DType::f32>(inputs, w, bias, c, c_stride, accumulate);
  });
}

}  // namespace qkv::kernels::cuda

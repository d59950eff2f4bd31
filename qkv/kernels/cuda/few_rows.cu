// Products of few rows, as in decoding: the weights are read once, as they are stored, and bound the time.

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/products.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {
namespace {

bool rows_are_aligned(const void* data, int64_t row_bytes) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(SixteenBytes));
  return reinterpret_cast<uintptr_t>(data) % kBytes == 0 && row_bytes % kBytes == 0;
}

// A warp for each row of the weights; a lane sums every 32nd group of eight columns. `most` is a constant, so
// that the sums stay in registers; a sum is computed by the same instructions for any number of rows.
template <DType dtype, int most>
void multiply(int64_t rows, const float* x, int64_t x_stride, const WeightRows& w, const float* bias,
              float* c, int64_t c_stride, bool accumulate) {
  const bool aligned_weights = rows_are_aligned(w.data, w.stride * (dtype == DType::f32 ? 4 : 2));
  const bool aligned_inputs = rows_are_aligned(x, x_stride * 4);
  constexpr int64_t kWarps = kThreads / Thread::kLanes;
  launch((w.rows + kWarps - 1) / kWarps, [=] QKV_DEVICE(const Thread& thread) {
    for (int64_t warp = thread.warp(); warp < kWarps; warp += thread.warps()) {
      const int64_t row = thread.block * kWarps + warp;
      if (row >= w.rows) return;
      float sums[most] = {};
      const auto input = [&](int r) { return x + (r < rows ? r : 0) * x_stride; };
      int64_t col = kEight * thread.lane();
      for (; col + kEight <= w.cols; col += kEight * thread.lanes()) {
        float weights[kEight], inputs[kEight];
        eight_elements<dtype>(w, row, col, aligned_weights, weights);
        QKV_UNROLL for (int r = 0; r < most; ++r) {
          eight_floats(input(r) + col, aligned_inputs, inputs);
          QKV_UNROLL for (int i = 0; i < kEight; ++i) sums[r] = ::fmaf(weights[i], inputs[i], sums[r]);
        }
      }
      for (; col < w.cols; ++col) {  // the lane with the rest of the row
        const float weight = element<dtype>(w, row, col);
        QKV_UNROLL for (int r = 0; r < most; ++r) sums[r] = ::fmaf(weight, input(r)[col], sums[r]);
      }
      QKV_UNROLL for (int r = 0; r < most; ++r) {
        const float sum = Thread::warp_sum(sums[r]) + (bias != nullptr ? bias[row] : 0.0f);
        if (thread.lane() == 0 && r < rows)
          put(c[r * c_stride + row], sum, accumulate ? Accumulate::yes : Accumulate::no);
      }
    }
  });
}

}  // namespace

void multiply_few_rows(int64_t rows, const float* x, int64_t x_stride, const WeightRows& w, const float* bias,
                       float* c, int64_t c_stride, bool accumulate) {
  with_dtype(w.dtype, [&](auto dtype) {
    const auto run = [&]<int most>() {
      multiply<dtype.value, most>(rows, x, x_stride, w, bias, c, c_stride, accumulate);
    };
    if (rows == 1) return run.template operator()<1>();
    if (rows == 2) return run.template operator()<2>();
    if (rows <= 4) return run.template operator()<4>();
    return run.template operator()<kFewRows>();
  });
}

}  // namespace qkv::kernels::cuda

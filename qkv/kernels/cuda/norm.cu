// Norms with residual sums: a block for each row.

#include "qkv/kernels/cuda/dropout.h"
#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"

namespace qkv::kernels::cuda {

void norm_forward(const NormInput& a, const NormOutput& to) {
  // z is kept in shared memory, as outputs may overwrite inputs.
  launch(
      a.rows,
      [=] QKV_DEVICE(const Thread& thread) {
        const int64_t first = thread.block * a.cols;
        auto* const z = reinterpret_cast<float*>(thread.shared);
        double sum = 0;
        for (int64_t c = thread.index; c < a.cols; c += thread.count) {
          float value = get(a.x, first + c);
          if (a.residual != nullptr)
            value += dropout_factor(a.dropout, thread.block, c) * get(a.residual, first + c);
          z[c] = value;
          sum += value;
        }
        const double count = static_cast<double>(a.cols);
        const double mean = a.kind == NormKind::rms ? 0 : thread.sum(sum) / count;
        double squares = 0;
        for (int64_t c = thread.index; c < a.cols; c += thread.count)
          squares += (z[c] - mean) * (z[c] - mean);
        const double rstd = 1 / ::sqrt(thread.sum(squares) / count + static_cast<double>(a.epsilon));
        for (int64_t c = thread.index; c < a.cols; c += thread.count) {
          if (to.sum != nullptr) put(to.sum, first + c, z[c]);
          if (a.weight != nullptr)
            put(to.y, first + c,
                static_cast<float>((z[c] - mean) * rstd) * a.weight[c] +
                    (a.bias == nullptr ? 0.0f : a.bias[c]));
        }
        if (thread.index != 0) return;
        if (to.mean != nullptr) to.mean[thread.block] = static_cast<float>(mean);
        if (to.rstd != nullptr) to.rstd[thread.block] = static_cast<float>(rstd);
      },
      static_cast<size_t>(a.cols) * sizeof(float));
}

// The formulas stand in reference/norm.cc.
void norm_backward(const NormBackward& a) {
  // Sums over rows first: dz may be dy.
  if (a.weight_gradient != nullptr || a.bias_gradient != nullptr) {
    launch(a.cols, [=] QKV_DEVICE(const Thread& thread) {
      const int64_t c = thread.block;
      double weight = 0, bias = 0;
      for (int64_t r = thread.index; r < a.rows; r += thread.count) {
        const float dy = get(a.dy, r * a.cols + c);
        weight += static_cast<double>(dy) * ((get(a.z, r * a.cols + c) - a.mean[r]) * a.rstd[r]);
        bias += dy;
      }
      weight = thread.sum(weight);
      bias = thread.sum(bias);
      if (thread.index != 0) return;
      if (a.weight_gradient != nullptr)
        put(a.weight_gradient[c], static_cast<float>(weight), a.weight_accumulate);
      if (a.bias_gradient != nullptr) put(a.bias_gradient[c], static_cast<float>(bias), a.bias_accumulate);
    });
  }
  if (a.dz == nullptr && a.residual_gradient == nullptr) return;
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t row = thread.block, first = row * a.cols;
    const float mean = a.mean[row], rstd = a.rstd[row];
    double sum = 0, products = 0;
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      const float g = get(a.dy, first + c) * a.weight[c];
      sum += g;
      products += static_cast<double>(g) * ((get(a.z, first + c) - mean) * rstd);
    }
    const auto count = static_cast<double>(a.cols);
    const double centre = a.kind == NormKind::rms ? 0 : thread.sum(sum) / count;
    const double slope = thread.sum(products) / count;
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      const float n = (get(a.z, first + c) - mean) * rstd, g = get(a.dy, first + c) * a.weight[c];
      const auto dz = static_cast<float>(rstd * (g - centre - n * slope));
      if (a.residual_gradient != nullptr)
        put(a.residual_gradient, first + c, dz * dropout_factor(a.dropout, row, c), a.residual_accumulate);
      if (a.dz != nullptr) put(a.dz, first + c, dz, a.dz_accumulate);
    }
  });
}

}  // namespace qkv::kernels::cuda

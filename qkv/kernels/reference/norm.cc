#include "qkv/kernels/reference/norm.h"

#include <cmath>

#include "qkv/kernels/reference/dropout.h"

namespace qkv::kernels::reference {

namespace {

struct Moments {
  double mean = 0, rstd = 0;
};

Moments moments(NormKind kind, const double* z, int64_t cols, double epsilon) {
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < cols; ++c) sum += z[c];
  const double mean = kind == NormKind::rms ? 0 : sum / static_cast<double>(cols);
  for (int64_t c = 0; c < cols; ++c) squares += (z[c] - mean) * (z[c] - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(cols) + epsilon)};
}

// With n = (z - mean) rstd and g = dy * weight:
//   dz = rstd (g - mean(g) - n mean(g n)),   rms without mean(g)
//   dweight = sum over rows of dy n,   dbias = sum over rows of dy
template <class MomentsOfRow>
NormGradients norm_backward(const NormBackward& a, const MomentsOfRow& moments_of_row) {
  NormGradients gradients;
  gradients.weight.resize(static_cast<size_t>(a.cols));
  gradients.bias.resize(static_cast<size_t>(a.cols));
  const double count = static_cast<double>(a.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    const Elements z = a.z + r * a.cols, dy = a.dy + r * a.cols;
    const Moments m = moments_of_row(r);
    double sum = 0, product_sum = 0;
    for (int64_t c = 0; c < a.cols; ++c) {
      const double n = (get(z, c) - m.mean) * m.rstd, g = get(dy, c) * double{a.weight[c]};
      sum += g;
      product_sum += g * n;
      gradients.weight[static_cast<size_t>(c)] += get(dy, c) * n;
      gradients.bias[static_cast<size_t>(c)] += get(dy, c);
    }
    for (int64_t c = 0; c < a.cols; ++c) {
      const double n = (get(z, c) - m.mean) * m.rstd, g = get(dy, c) * double{a.weight[c]};
      const double centre = a.kind == NormKind::rms ? 0 : sum / count;
      const double dz = m.rstd * (g - centre - n * product_sum / count);
      gradients.dz.push_back(dz);
      gradients.residual.push_back(dz * dropout_factor(a.dropout, r, c));
    }
  }
  return gradients;
}

}  // namespace

Norm norm_forward(const NormInput& input) {
  const int64_t rows = input.rows, cols = input.cols;
  Norm norm;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      double z = get(input.x, r * cols + c);
      if (input.residual != nullptr) {
        z += dropout_factor(input.dropout, r, c) * get(input.residual, r * cols + c);
      }
      norm.sum.push_back(z);
    }
    const double* z = norm.sum.data() + r * cols;
    const Moments m = moments(input.kind, z, cols, double{input.epsilon});
    norm.mean.push_back(m.mean);
    norm.rstd.push_back(m.rstd);
    if (input.weight == nullptr) continue;
    for (int64_t c = 0; c < cols; ++c) {
      norm.y.push_back((z[c] - m.mean) * m.rstd * double{input.weight[c]} +
                       (input.bias == nullptr ? 0 : double{input.bias[c]}));
    }
  }
  return norm;
}

NormGradients norm_backward(const NormBackward& a, float epsilon) {
  return norm_backward(a, [&](int64_t row) {
    Doubles z;
    for (int64_t c = 0; c < a.cols; ++c) z.push_back(get(a.z, row * a.cols + c));
    return moments(a.kind, z.data(), a.cols, double{epsilon});
  });
}

void norm_forward(const NormInput& input, const NormOutput& output) {
  const Norm norm = norm_forward(input);
  store(norm.sum, output.sum);
  store(norm.y, output.y);
  store(norm.mean, output.mean);
  store(norm.rstd, output.rstd);
}

void norm_backward(const NormBackward& a) {
  const NormGradients gradients = norm_backward(a, [&](int64_t row) {
    return Moments{double{a.mean[row]}, double{a.rstd[row]}};
  });
  store(gradients.residual, a.residual_gradient, a.residual_accumulate);
  store(gradients.dz, a.dz, a.dz_accumulate);
  store(gradients.weight, a.weight_gradient, a.weight_accumulate);
  store(gradients.bias, a.bias_gradient, a.bias_accumulate);
}

void dropout_backward(Elements dy, MutableElements dx, int64_t rows, int64_t cols, const Dropout& dropout,
                      Accumulate accumulate) {
  Doubles result;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c)
      result.push_back(get(dy, r * cols + c) * dropout_factor(dropout, r, c));
  }
  store(result, dx, accumulate);
}

}  // namespace qkv::kernels::reference

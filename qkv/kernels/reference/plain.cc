#include "qkv/kernels/reference/plain.h"

#include <cmath>
#include <vector>

namespace qkv::kernels::reference {
namespace {

void put(float& to, double value, Accumulate accumulate) {
  to = static_cast<float>(accumulate == Accumulate::yes ? to + value : value);
}

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

double log_sum_exp(const LabelLoss& a, int64_t row) {
  const float* x = a.logits + row * a.cols;
  double largest = x[0], sum = 0;
  for (int64_t c = 0; c < a.cols; ++c) largest = std::fmax(largest, x[c]);
  for (int64_t c = 0; c < a.cols; ++c) sum += std::exp(x[c] - largest);
  return largest + std::log(sum);
}

// What each class counts: loss = -sum_c targets[c] log p[c].
std::vector<double> targets(const LabelLoss& a, int64_t row) {
  std::vector<double> t;
  for (int64_t c = 0; c < a.cols; ++c) {
    const double weight = a.class_weights == nullptr ? 1 : a.class_weights[c];
    const double smoothing = a.smoothing;
    t.push_back(weight *
                (smoothing / static_cast<double>(a.cols) + (c == a.labels[row] ? 1 - smoothing : 0)));
  }
  return t;
}

}  // namespace

void binary(const Broadcast& a) {
  int64_t total = 1;
  for (const int64_t extent : a.extents) total *= extent;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, x = 0, y = 0, z = 0;
    for (size_t axis = Broadcast::kAxes; axis-- > 0; rest /= a.extents[axis]) {
      const int64_t index = rest % a.extents[axis];
      x += index * a.x_strides[axis];
      y += index * a.y_strides[axis];
      z += index * a.z_strides[axis];
    }
    put(a.z[z], apply(a.op, a.x[x], a.y[y]), a.accumulate);
  }
}

void sum_axis(const AxisSum& a) {
  for (int64_t o = 0; o < a.outer; ++o) {
    for (int64_t i = 0; i < a.inner; ++i) {
      double sum = 0;
      for (int64_t n = 0; n < a.count; ++n) sum += a.x[(o * a.count + n) * a.inner + i];
      put(a.y[o * a.inner + i], a.factor * sum, a.accumulate);
    }
  }
}

void batched_product(const BatchedProduct& a) {
  for (int64_t b = 0; b < a.batch; ++b) {
    const float *x = a.x + b * a.m * a.k, *y = a.y + b * a.k * a.n;
    for (int64_t i = 0; i < a.m; ++i) {
      for (int64_t j = 0; j < a.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < a.k; ++l) {
          sum += double{x[a.x_transposed ? l * a.m + i : i * a.k + l]} *
                 y[a.y_transposed ? j * a.k + l : l * a.n + j];
        }
        put(a.z[(b * a.m + i) * a.n + j], sum, a.accumulate);
      }
    }
  }
}

void segment_mean(const SegmentMean& a) {
  const Segments& s = a.segments;
  for (int64_t segment = 0; segment < s.segments; ++segment) {
    for (int64_t c = 0; c < s.cols; ++c) {
      double sum = 0;
      for (int64_t row = s.offsets[segment]; row < s.offsets[segment + 1]; ++row)
        sum += a.x[row * s.cols + c];
      const int64_t rows = s.offsets[segment + 1] - s.offsets[segment];
      a.y[segment * s.cols + c] = rows == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(rows));
    }
  }
}

void segment_mean_backward(const SegmentMeanBackward& a) {
  const Segments& s = a.segments;
  for (int64_t segment = 0; segment < s.segments; ++segment) {
    const int64_t rows = s.offsets[segment + 1] - s.offsets[segment];
    for (int64_t row = s.offsets[segment]; row < s.offsets[segment + 1]; ++row) {
      for (int64_t c = 0; c < s.cols; ++c) {
        put(a.dx[row * s.cols + c],
            static_cast<double>(a.dy[segment * s.cols + c]) / static_cast<double>(rows), a.accumulate);
      }
    }
  }
}

void segment_max(const SegmentMax& a) {
  const Segments& s = a.segments;
  for (int64_t segment = 0; segment < s.segments; ++segment) {
    for (int64_t c = 0; c < s.cols; ++c) {
      float largest = 0;
      int32_t found = -1;
      for (int32_t row = s.offsets[segment]; row < s.offsets[segment + 1]; ++row) {
        const float value = a.x[row * s.cols + c];
        const bool first_nan = std::isnan(value) && !std::isnan(largest);
        if (found < 0 || value > largest || first_nan) {
          largest = value;
          found = row;
        }
      }
      a.y[segment * s.cols + c] = largest;
      a.rows[segment * s.cols + c] = found;
    }
  }
}

void segment_max_backward(const SegmentMaxBackward& a) {
  const Segments& s = a.segments;
  for (int64_t i = 0; i < s.segments * s.cols; ++i) {
    if (a.rows[i] >= 0) a.dx[a.rows[i] * s.cols + i % s.cols] += a.dy[i];
  }
}

void label_loss(const LabelLossForward& f) {
  const LabelLoss& a = f.loss;
  for (int64_t row = 0; row < a.rows; ++row) {
    const double log_sum = log_sum_exp(a, row);
    const std::vector<double> t = targets(a, row);
    double loss = 0;
    for (int64_t c = 0; c < a.cols; ++c)
      loss += t[static_cast<size_t>(c)] * (log_sum - a.logits[row * a.cols + c]);
    f.log_sum_exp[row] = static_cast<float>(log_sum);
    f.losses[row] = a.labels[row] == a.ignored ? 0.0f : static_cast<float>(loss);
  }
}

void label_loss_backward(const LabelLossBackward& b) {
  const LabelLoss& a = b.loss;
  for (int64_t row = 0; row < a.rows; ++row) {
    const double log_sum = log_sum_exp(a, row);
    const std::vector<double> t = targets(a, row);
    double all = 0;
    for (const double target : t) all += target;
    for (int64_t c = 0; c < a.cols; ++c) {
      const double p = std::exp(a.logits[row * a.cols + c] - log_sum);
      const double gradient = b.d_losses[row] * (p * all - t[static_cast<size_t>(c)]);
      put(b.d_logits[row * a.cols + c], a.labels[row] == a.ignored ? 0 : gradient, b.accumulate);
    }
  }
}

void softmax_backward(const SoftmaxBackward& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    double sum = 0;
    for (int64_t i = row * a.cols; i < (row + 1) * a.cols; ++i) sum += a.dy[i] * (a.log ? 1.0 : a.y[i]);
    for (int64_t i = row * a.cols; i < (row + 1) * a.cols; ++i) {
      put(a.dx[i], a.log ? a.dy[i] - std::exp(double{a.y[i]}) * sum : a.y[i] * (a.dy[i] - sum), a.accumulate);
    }
  }
}

}  // namespace qkv::kernels::reference

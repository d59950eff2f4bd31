// Activations, gates, sums and copies.

#include "qkv/kernels/cuda/dropout.h"
#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"

namespace qkv::kernels::cuda {
namespace {

QKV_DEVICE float activated(Activation activation, float x) {
  constexpr float kRoot = 0.7978845608f;  // sqrt(2 / pi)
  switch (activation) {
    case Activation::identity:
      return x;
    case Activation::relu:
      return x > 0 ? x : x == x ? 0 : x;
    case Activation::gelu_exact:
      return x / 2 * ::erfcf(-x * 0.7071067812f);
    case Activation::gelu_tanh:
      return x / 2 * (1 + ::tanhf(kRoot * (x + 0.044715f * x * x * x)));
    case Activation::silu:
      return x / (1 + ::expf(-x));
    case Activation::tanh:
      return ::tanhf(x);
    case Activation::relu_squared:
      return x > 0 ? x * x : x == x ? 0 : x;
    case Activation::quick_gelu:
      return x / (1 + ::expf(-1.702f * x));
  }
  return x;
}

QKV_DEVICE float derivative(Activation activation, float x) {
  constexpr float kRoot = 0.7978845608f;  // sqrt(2 / pi)
  switch (activation) {
    case Activation::identity:
      return 1;
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::gelu_exact:
      return ::erfcf(-x * 0.7071067812f) / 2 + x * ::expf(-x * x / 2) * 0.3989422804f;
    case Activation::gelu_tanh: {
      const float t = ::tanhf(kRoot * (x + 0.044715f * x * x * x));
      return (1 + t) / 2 + x / 2 * (1 - t * t) * kRoot * (1 + 0.134145f * x * x);
    }
    case Activation::silu: {
      const float s = 1 / (1 + ::expf(-x));
      return s + x * s * (1 - s);
    }
    case Activation::tanh: {
      const float t = ::tanhf(x);
      return 1 - t * t;
    }
    case Activation::relu_squared:
      return x > 0 ? 2 * x : 0;
    case Activation::quick_gelu: {
      const float s = 1 / (1 + ::expf(-1.702f * x));
      return s + 1.702f * x * s * (1 - s);
    }
  }
  return 1;
}

QKV_DEVICE float applied(BinaryOp op, float x, float y) {
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
  return x;
}

}  // namespace

void copy(Elements x, MutableElements y, int64_t count, Accumulate accumulate) {
  for_each(count, [=] QKV_DEVICE(int64_t i) { put(y, i, get(x, i), accumulate); });
}

void scale(Elements x, float factor, MutableElements y, int64_t count, Accumulate accumulate) {
  for_each(count, [=] QKV_DEVICE(int64_t i) { put(y, i, factor * get(x, i), accumulate); });
}

void scale_by(Elements x, const float* factor, MutableElements y, int64_t count, Accumulate accumulate) {
  for_each(count, [=] QKV_DEVICE(int64_t i) { put(y, i, *factor * get(x, i), accumulate); });
}

void add(Elements x, Elements y, MutableElements z, int64_t count) {
  for_each(count, [=] QKV_DEVICE(int64_t i) { put(z, i, get(x, i) + get(y, i)); });
}

void activate(Activation activation, Elements x, MutableElements y, int64_t rows, int64_t cols,
              const Dropout& dropout) {
  for_each(rows * cols, [=] QKV_DEVICE(int64_t i) {
    put(y, i, activated(activation, get(x, i)) * dropout_factor(dropout, i / cols, i % cols));
  });
}

void activate_backward(Activation activation, Elements x, Elements dy, MutableElements dx, int64_t rows,
                       int64_t cols, const Dropout& dropout, Accumulate accumulate) {
  for_each(rows * cols, [=] QKV_DEVICE(int64_t i) {
    put(dx, i, derivative(activation, get(x, i)) * get(dy, i) * dropout_factor(dropout, i / cols, i % cols),
        accumulate);
  });
}

void relu_backward(Elements y, Elements dy, float factor, MutableElements dx, int64_t count) {
  for_each(count, [=] QKV_DEVICE(int64_t i) { put(dx, i, get(y, i) > 0 ? factor * get(dy, i) : 0.0f); });
}

void dropout_backward(Elements dy, MutableElements dx, int64_t rows, int64_t cols, const Dropout& dropout,
                      Accumulate accumulate) {
  for_each(rows * cols, [=] QKV_DEVICE(int64_t i) {
    put(dx, i, get(dy, i) * dropout_factor(dropout, i / cols, i % cols), accumulate);
  });
}

void gated(const Gated& a, MutableElements y) {
  for_each(a.rows * a.cols, [=] QKV_DEVICE(int64_t i) {
    const int64_t r = i / a.cols, c = i % a.cols;
    put(y, i,
        activated(a.activation, get(a.gate, r * a.gate_stride + c)) * get(a.x, r * a.x_stride + c) *
            dropout_factor(a.dropout, r, c));
  });
}

void gated_backward(const Gated& a, Elements dy, const GradientRows& d_gate, const GradientRows& d_x) {
  for_each(a.rows * a.cols, [=] QKV_DEVICE(int64_t i) {
    const int64_t r = i / a.cols, c = i % a.cols;
    const float upstream = get(dy, i) * dropout_factor(a.dropout, r, c);
    const float gate = get(a.gate, r * a.gate_stride + c), x = get(a.x, r * a.x_stride + c);
    if (d_gate.data != nullptr)
      put(d_gate.data, r * d_gate.stride + c, upstream * x * derivative(a.activation, gate),
          d_gate.accumulate);
    if (d_x.data != nullptr)
      put(d_x.data, r * d_x.stride + c, upstream * activated(a.activation, gate), d_x.accumulate);
  });
}

void column_sums(Elements x, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate) {
  launch(cols, [=] QKV_DEVICE(const Thread& thread) {
    double sum = 0;
    for (int64_t r = thread.index; r < rows; r += thread.count) sum += get(x, r * row_stride + thread.block);
    sum = thread.sum(sum);
    if (thread.index == 0) put(sums[thread.block], static_cast<float>(sum), accumulate);
  });
}

void transpose(const void* x, int64_t x_stride, int64_t rows, int64_t cols, size_t element, void* y) {
  for_each(rows * cols, [=] QKV_DEVICE(int64_t i) {
    const int64_t from = i % rows * x_stride + i / rows;
    if (element == 4) {
      static_cast<uint32_t*>(y)[i] = static_cast<const uint32_t*>(x)[from];
    } else {
      static_cast<uint16_t*>(y)[i] = static_cast<const uint16_t*>(x)[from];
    }
  });
}

void binary(const Broadcast& a) {
  int64_t count = 1;
  for (const int64_t extent : a.extents) count *= extent;
  for_each(count, [=] QKV_DEVICE(int64_t i) {
    const Broadcast::Places at = a.places(i);
    put(a.z, at.z, applied(a.op, get(a.x, at.x), get(a.y, at.y)), a.accumulate);
  });
}

void sum_axis(const AxisSum& a) {
  for_each(a.outer * a.inner, [=] QKV_DEVICE(int64_t i) {
    double sum = 0;
    for (int64_t n = 0; n < a.count; ++n)
      sum += get(a.x, (i / a.inner * a.count + n) * a.inner + i % a.inner);
    put(a.y, i, static_cast<float>(a.factor * sum), a.accumulate);
  });
}

void sum_of_squares(const float* x, int64_t count, double* sum) {
  // Two passes, as one block would take too long: parts, then their sum.
  constexpr int64_t kPart = 64 * kThreads;
  const int64_t parts = (count + kPart - 1) / kPart;
  const Array<double> sums(parts);
  double* const of_parts = sums.data();
  launch(parts, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t end = thread.block * kPart + kPart;
    double part = 0;
    for (int64_t i = thread.block * kPart + thread.index; i < (end < count ? end : count); i += thread.count)
      part += static_cast<double>(x[i]) * x[i];
    part = thread.sum(part);
    if (thread.index == 0) of_parts[thread.block] = part;
  });
  launch(1, [=] QKV_DEVICE(const Thread& thread) {
    double whole = 0;
    for (int64_t i = thread.index; i < parts; i += thread.count) whole += of_parts[i];
    whole = thread.sum(whole);
    if (thread.index == 0) *sum = whole;
  });
}

void total(const float* x, int64_t count, float factor, double* total, float* scaled) {
  launch(1, [=] QKV_DEVICE(const Thread& thread) {
    double sum = 0;
    for (int64_t i = thread.index; i < count; i += thread.count) sum += x[i];
    sum = thread.sum(sum);
    if (thread.index != 0) return;
    *total = sum;
    if (scaled != nullptr) *scaled = static_cast<float>(sum * factor);
  });
}

void all_finite(Elements x, int64_t count, int32_t* finite) {
  launch(1, [=] QKV_DEVICE(const Thread&) { *finite = 1; });
  for_each(count, [=] QKV_DEVICE(int64_t i) {
    const float value = get(x, i);
    if (!(value - value == 0)) *finite = 0;  // all write the same
  });
}

void segment_mean(const SegmentMean& a) {
  const Array<int32_t> offsets(a.segments.offsets, a.segments.segments + 1);
  const int32_t* const begin = offsets.data();
  const int64_t cols = a.segments.cols;
  for_each(a.segments.segments * cols, [=] QKV_DEVICE(int64_t i) {
    const int64_t segment = i / cols, rows = begin[segment + 1] - begin[segment];
    double sum = 0;
    for (int64_t row = begin[segment]; row < begin[segment + 1]; ++row) sum += a.x[row * cols + i % cols];
    a.y[i] = rows == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(rows));
  });
}

void segment_mean_backward(const SegmentMeanBackward& a) {
  const Array<int32_t> offsets(a.segments.offsets, a.segments.segments + 1);
  const int32_t* const begin = offsets.data();
  const int64_t cols = a.segments.cols;
  launch(a.segments.segments, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t first = begin[thread.block], rows = begin[thread.block + 1] - first;
    for (int64_t i = thread.index; i < rows * cols; i += thread.count) {
      put(a.dx[first * cols + i], a.dy[thread.block * cols + i % cols] / static_cast<float>(rows),
          a.accumulate);
    }
  });
}

void segment_max(const SegmentMax& a) {
  const Array<int32_t> offsets(a.segments.offsets, a.segments.segments + 1);
  const int32_t* const begin = offsets.data();
  const int64_t cols = a.segments.cols;
  for_each(a.segments.segments * cols, [=] QKV_DEVICE(int64_t i) {
    float largest = 0;
    int32_t found = -1;
    for (int32_t row = begin[i / cols]; row < begin[i / cols + 1]; ++row) {
      const float value = a.x[row * cols + i % cols];
      if (found < 0 || value > largest || (value != value && largest == largest)) {
        largest = value;
        found = row;
      }
    }
    a.y[i] = largest;
    a.rows[i] = found;
  });
}

void segment_max_backward(const SegmentMaxBackward& a) {
  const int64_t cols = a.segments.cols;
  for_each(a.segments.segments * cols, [=] QKV_DEVICE(int64_t i) {
    if (a.rows[i] >= 0) a.dx[a.rows[i] * cols + i % cols] += a.dy[i];
  });
}

}  // namespace qkv::kernels::cuda

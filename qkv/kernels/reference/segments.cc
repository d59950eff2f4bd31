#include "qkv/kernels/reference/segments.h"

#include <cmath>

#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

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
        store_element(a.dx, row * s.cols + c,
                      static_cast<double>(a.dy[segment * s.cols + c]) / static_cast<double>(rows),
                      a.accumulate);
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

}  // namespace qkv::kernels::reference

#include "qkv/kernels/backend/segments.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels::cpu {
namespace {

constexpr int64_t kColumns = 128;  // per piece of work

// Calls body(segment, first column, columns).
template <class Body>
void for_blocks(const Segments& s, const Body& body) {
  const int64_t blocks = (s.cols + kColumns - 1) / kColumns,
                rows = s.segments == 0 ? 0 : s.offsets[s.segments];
  const int64_t work = std::max<int64_t>(1, rows * s.cols), tasks = s.segments * blocks;
  const int64_t grain = std::max<int64_t>(1, 16384 * tasks / work);
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % blocks * kColumns;
      body(task / blocks, first, std::min(kColumns, s.cols - first));
    }
  });
}

}  // namespace

void segment_mean(const SegmentMean& a) {
  const Segments& s = a.segments;
  for_blocks(s, [&](int64_t segment, int64_t first, int64_t cols) {
    std::array<double, kColumns> sums{};
    const int64_t begin = s.offsets[segment], end = s.offsets[segment + 1];
    for (int64_t row = begin; row < end; ++row) {
      const float* from = a.x + row * s.cols + first;
      for (int64_t c = 0; c < cols; ++c) sums[static_cast<size_t>(c)] += static_cast<double>(from[c]);
    }
    const auto count = static_cast<double>(std::max<int64_t>(1, end - begin));
    for (int64_t c = 0; c < cols; ++c) {
      a.y[segment * s.cols + first + c] = static_cast<float>(sums[static_cast<size_t>(c)] / count);
    }
  });
}

void segment_mean_backward(const SegmentMeanBackward& a) {
  const Segments& s = a.segments;
  for_blocks(s, [&](int64_t segment, int64_t first, int64_t cols) {
    const int64_t begin = s.offsets[segment], end = s.offsets[segment + 1];
    const auto count = static_cast<float>(end - begin);
    const float* from = a.dy + segment * s.cols + first;
    for (int64_t row = begin; row < end; ++row) {
      float* to = a.dx + row * s.cols + first;
      if (a.accumulate == Accumulate::yes) {
        for (int64_t c = 0; c < cols; ++c) to[c] += from[c] / count;
      } else {
        for (int64_t c = 0; c < cols; ++c) to[c] = from[c] / count;
      }
    }
  });
}

void segment_max(const SegmentMax& a) {
  const Segments& s = a.segments;
  for_blocks(s, [&](int64_t segment, int64_t first, int64_t cols) {
    const int64_t begin = s.offsets[segment], end = s.offsets[segment + 1];
    float* y = a.y + segment * s.cols + first;
    int32_t* rows = a.rows + segment * s.cols + first;
    for (int64_t c = 0; c < cols; ++c) {
      y[c] = begin < end ? a.x[begin * s.cols + first + c] : 0.0f;
      rows[c] = begin < end ? static_cast<int32_t>(begin) : -1;
    }
    for (int64_t row = begin + 1; row < end; ++row) {
      const float* from = a.x + row * s.cols + first;
      for (int64_t c = 0; c < cols; ++c) {
        if (from[c] > y[c] || (std::isnan(from[c]) && !std::isnan(y[c]))) {
          y[c] = from[c];
          rows[c] = static_cast<int32_t>(row);
        }
      }
    }
  });
}

void segment_max_backward(const SegmentMaxBackward& a) {
  const Segments& s = a.segments;
  for_blocks(s, [&](int64_t segment, int64_t first, int64_t cols) {
    for (int64_t c = first; c < first + cols; ++c) {
      const int64_t row = a.rows[segment * s.cols + c];
      if (row >= 0) a.dx[row * s.cols + c] += a.dy[segment * s.cols + c];
    }
  });
}

}  // namespace qkv::kernels::cpu

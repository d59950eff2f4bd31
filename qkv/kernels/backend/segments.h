#pragma once
// Pooling: reduces the rows of each segment (a sequence of a ragged batch) to one.

#include <cstdint>

#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

// Segment s is rows offsets[s] to offsets[s + 1] of x. An empty segment gives zeros. Rows are summed in
// order, in double precision.
struct Segments {
  const int32_t* offsets = nullptr;  // [segments + 1], on the host
  int64_t segments = 0, cols = 0;
};

// y[s, c] = the mean of column c over segment s.
struct SegmentMean {
  Segments segments;
  const float* x = nullptr;  // [rows, cols]
  float* y = nullptr;        // [segments, cols]
};

// dx[r, c] (+)= dy[s, c] / rows of s, for the segment s of row r.
struct SegmentMeanBackward {
  Segments segments;
  const float* dy = nullptr;  // [segments, cols]
  float* dx = nullptr;        // [rows, cols]
  Accumulate accumulate = Accumulate::no;
};

// y[s, c] = the maximum of column c in segment s, and rows[s, c] its row (the first of a tie; NaN is greater
// than any number); -1 for an empty segment.
struct SegmentMax {
  Segments segments;
  const float* x = nullptr;  // [rows, cols]
  float* y = nullptr;        // [segments, cols]
  int32_t* rows = nullptr;   // [segments, cols]
};

// dx[rows[s, c], c] += dy[s, c].
struct SegmentMaxBackward {
  Segments segments;
  const float* dy = nullptr;      // [segments, cols]
  const int32_t* rows = nullptr;  // [segments, cols]
  float* dx = nullptr;            // [rows, cols]
};

}  // namespace qkv::kernels

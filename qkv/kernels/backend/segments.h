#pragma once
// Rows of a segment (a sequence of a ragged batch) reduced to one: pooling.

#include <cstdint>

#include "qkv/kernels/accumulate.h"

namespace qkv::kernels {

// Segment s is rows offsets[s] to offsets[s + 1] of x. The result of an empty segment is zeros. Sums run in
// the order of the rows, in double precision.
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

// y[s, c] = the largest of column c in segment s, and rows[s, c] the row that holds it: of equals the first,
// a NaN before all numbers; -1 in an empty segment.
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

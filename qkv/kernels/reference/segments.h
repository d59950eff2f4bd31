#pragma once
// Means and maxima over the rows of each sequence.

#include "qkv/kernels/backend/segments.h"

namespace qkv::kernels::reference {

void segment_mean(const SegmentMean& arguments);
void segment_mean_backward(const SegmentMeanBackward& arguments);
void segment_max(const SegmentMax& arguments);
void segment_max_backward(const SegmentMaxBackward& arguments);

}  // namespace qkv::kernels::reference

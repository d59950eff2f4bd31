#pragma once
// Pooling: reduces segments of rows (the sequences of a ragged batch) to one row each.

#include "qkv/kernels/kinds.h"
#include "qkv/tensor/ragged.h"

namespace qkv::kernels {

// y[s] = mean of the rows of sequence s; x [tokens, cols], y [sequences, cols], f32, contiguous. An empty
// sequence gives zeros.
void segment_mean(const Tensor& x, const Offsets& offsets, Tensor& y);
// dx[r] (+)= dy[s] / length of s, for the sequence s of row r.
void segment_mean_backward(const Tensor& dy, const Offsets& offsets, Tensor& dx, Accumulate accumulate);

// y[s, c] = the maximum of column c in sequence s, rows[s, c] (i32) its row of x (the first of a tie; NaN is
// greater than any number); 0 and -1 for an empty sequence.
void segment_max(const Tensor& x, const Offsets& offsets, Tensor& y, Tensor& rows);
// dx[rows[s, c], c] += dy[s, c].
void segment_max_backward(const Tensor& dy, const Offsets& offsets, const Tensor& rows, Tensor& dx);

}  // namespace qkv::kernels

#pragma once
// Mutual information.

#include <cstdint>

namespace qkv::metrics {

// The mutual information of row and column in bits, if a row i is drawn at random and then a column j with
// probability w_ij: I = H(mean row) - mean_i H(row i), H(p) = -sum_j p_j log2 p_j. From 0, if all rows are
// equal, to log2(min(rows, columns)). weights: [rows, columns], row_stride apart; each row sums to 1.
double mutual_information(const float* weights, int64_t rows, int64_t columns, int64_t row_stride);

}  // namespace qkv::metrics

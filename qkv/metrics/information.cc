#include "qkv/metrics/information.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace qkv::metrics {
namespace {

double entropy_term(double p) { return p > 0 ? -p * std::log2(p) : 0; }

}  // namespace

double mutual_information(const float* weights, int64_t rows, int64_t columns, int64_t row_stride) {
  std::vector<double> means(static_cast<size_t>(columns));
  double of_rows = 0, of_mean = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const double weight = weights[i * row_stride + j];
      means[static_cast<size_t>(j)] += weight / static_cast<double>(rows);
      of_rows += entropy_term(weight) / static_cast<double>(rows);
    }
  }
  for (const double mean : means) of_mean += entropy_term(mean);
  return std::max(0.0, of_mean - of_rows);  // rounding
}

}  // namespace qkv::metrics

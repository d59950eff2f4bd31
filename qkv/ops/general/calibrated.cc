#include "qkv/ops/general/calibrated.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/tensor/block_codes.h"
#include "qkv/tensor/block_dtypes.h"
#include "qkv/tensor/quantize_blocks.h"

namespace qkv {
namespace {

// A square matrix, row by row.
class Square {
 public:
  explicit Square(int64_t size) : size_(size), values_(static_cast<size_t>(size * size)) {}
  double* row(int64_t i) { return values_.data() + i * size_; }
  const double* row(int64_t i) const { return values_.data() + i * size_; }

 private:
  int64_t size_;
  std::vector<double> values_;
};

// In lanes that compilers turn into vectors.
double dot(const double* a, const double* b, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < end; ++i) sum += a[i] * b[i];
  return sum;
}

// The upper triangular R with A = R R^T, in place of A's upper triangle. A is positive definite.
void factorise(Square& a, int64_t size) {
  for (int64_t j = size - 1; j >= 0; --j) {
    double* const own = a.row(j);
    own[j] = std::sqrt(own[j] - dot(own, own, j + 1, size));
    parallel_for(j, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double* const row = a.row(i);
        row[j] = (row[j] - dot(row, own, j + 1, size)) / own[j];
      }
    });
  }
}

// The inverse of an upper triangular matrix: A^-1 = U^T U for U = R^-1.
Square inverse(const Square& r, int64_t size) {
  Square u(size);
  constexpr int64_t kColumns = 64;
  parallel_for((size + kColumns - 1) / kColumns, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kColumns, last = std::min(size, end * kColumns);
    for (int64_t i = last - 1; i >= 0; --i) {
      double* const row = u.row(i);
      const int64_t from = std::max(first, i);
      if (i >= first) row[i] = 1;
      for (int64_t m = i + 1; m < last; ++m) {
        const double factor = -r.row(i)[m];
        const double* const other = u.row(m);
        for (int64_t k = std::max(from, m); k < last; ++k) row[k] += factor * other[k];
      }
      for (int64_t k = from; k < last; ++k) row[k] /= r.row(i)[i];
    }
  });
  return u;
}

// The number of an encoding's group nearest to x.
int8_t nearest_integer_of(DType dtype, const NumberGroup& group, float x) {
  const auto [lowest, highest] = integers_of(dtype);
  if (group.scale == 0) return static_cast<int8_t>(std::clamp(0, int{lowest}, int{highest}));
  const float level = (x - group.offset) / group.scale;
  if (dtype != DType::iq4_nl)
    return static_cast<int8_t>(
        std::nearbyint(std::clamp(level, static_cast<float>(lowest), static_cast<float>(highest))));
  return nearest_step(level);
}

// Rows of a weight, rounded together so that the rows of U are read once.
void round_rows(DType dtype, float* const* rows, int64_t count, int64_t size, const std::vector<float>& u,
                std::byte* const* to) {
  const DTypeLayout layout = layout_of(dtype);
  const int64_t width = group_of(dtype);
  std::vector<NumberGroup> groups(static_cast<size_t>(count * (layout.block / width)));
  for (int64_t first = 0; first < size; first += layout.block) {
    const size_t at = bytes_of(dtype, first);
    for (int64_t r = 0; r < count; ++r) {
      quantize_blocks(dtype, rows[r] + first, layout.block, to[r] + at);
      read_block(dtype, to[r] + at, groups.data() + r * (layout.block / width));
    }
    for (int64_t j = first; j < first + layout.block; ++j) {
      const float* const factors = u.data() + j * size;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t within = j - first;
        NumberGroup& group = groups[static_cast<size_t>(r * (layout.block / width) + within / width)];
        int8_t& integer = group.integers[within % width];
        integer = nearest_integer_of(dtype, group, rows[r][j]);
        const float error = rows[r][j] - (group.scale * static_cast<float>(integer) + group.offset);
        for (int64_t k = j + 1; k < size; ++k) rows[r][k] -= error * factors[k];
      }
    }
    for (int64_t r = 0; r < count; ++r)
      put_integers(dtype, groups.data() + r * (layout.block / width), to[r] + at);
  }
}

void require(const Tensor& weight, const Tensor& gram, DType dtype) {
  if (weight.rank() != 2 || gram.shape() != Shape{weight.dim(1), weight.dim(1)} || !in_blocks(dtype) ||
      weight.dim(1) % layout_of(dtype).block != 0) {
    throw ShapeError(concat("quantize_calibrated: expected a weight [n, k] in blocks, k a multiple of ",
                            layout_of(dtype).block, ", and X^T X [k, k], found ", weight.shape(), ", ",
                            name_of(dtype), " and ", gram.shape()));
  }
  if (!kernels::all_finite(weight) || !kernels::all_finite(gram))
    throw NumericError("quantize_calibrated: expected finite weights and inputs, found NaN or infinity");
}

}  // namespace

QuantizedTensor quantize_calibrated(const Tensor& weight, const Tensor& gram, DType dtype, double damping) {
  require(weight, gram, dtype);
  const int64_t size = weight.dim(1);
  Square a(size);
  double mean = 0;
  for (int64_t i = 0; i < size; ++i) mean += double{gram.data()[i * size + i]} / static_cast<double>(size);
  for (int64_t i = 0; i < size; ++i) {
    std::copy_n(gram.data() + i * size, size, a.row(i));
    a.row(i)[i] += mean > 0 ? damping * mean : 1;
  }
  factorise(a, size);
  // Of row j of U, what an error of column j changes in the later columns.
  std::vector<float> factors(static_cast<size_t>(size * size));
  const Square u = inverse(a, size);
  for (int64_t j = 0; j < size; ++j) {
    for (int64_t k = j; k < size; ++k)
      factors[static_cast<size_t>(j * size + k)] = static_cast<float>(u.row(j)[k] / u.row(j)[j]);
  }
  const MemoryScope memory(MemoryUse::weights);
  const Storage storage = allocate(bytes_of(dtype, weight.numel()));
  constexpr int64_t kRows = 8;
  parallel_for((weight.rows() + kRows - 1) / kRows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * kRows, count = std::min(kRows, weight.rows() - first);
      const Tensor own = weight.slice_rows(first, count).clone();
      float* rows[kRows];
      std::byte* to[kRows];
      Tensor changed = own;
      for (int64_t r = 0; r < count; ++r) {
        rows[r] = changed.data() + r * size;
        to[r] = storage.get() + bytes_of(dtype, (first + r) * size);
      }
      round_rows(dtype, rows, count, size, factors, to);
    }
  });
  return {Tensor::wrap(storage, weight.shape(), dtype)};
}

}  // namespace qkv

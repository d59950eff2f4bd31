#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/adafactor.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

#ifndef QKV_KERNELS_CPU_ADAFACTOR_ROW
#define QKV_KERNELS_CPU_ADAFACTOR_ROW
namespace qkv::kernels {
namespace {

// Elements of a parameter with a common factor of v: v = row * column[i].
struct AdafactorRow {
  float* value;
  const float* gradient;
  const float* column;
  float row;
  float* average;  // may be null
  int64_t count;
};

struct AdafactorFactors {
  float gradient, smallest, keep, step_size, average;
};

}  // namespace
}  // namespace qkv::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// u = g / sqrt(max(v, smallest))
template <class P>
HWY_INLINE FloatVector update_at(const AdafactorFactors& f, const AdafactorRow& r, int64_t i, P part) {
  const Floats d;
  const auto v = hn::Max(hn::Mul(hn::Set(d, r.row), load(d, r.column + i, part)), hn::Set(d, f.smallest));
  return hn::Div(hn::Mul(hn::Set(d, f.gradient), load(d, r.gradient + i, part)), hn::Sqrt(v));
}

double squares_of_updates(const AdafactorFactors& f, const AdafactorRow& r) {
  return sum_of_row(Floats(), r.count, [&](auto part, int64_t i) HWY_ATTR {
    const auto u = update_at(f, r, i, part);
    return hn::Mul(u, u);
  });
}

void apply_updates(const AdafactorFactors& f, const AdafactorRow& r) {
  const Floats d;
  const auto keep = hn::Set(d, f.keep), step_size = hn::Set(d, f.step_size);
  for_vectors(d, r.count, [&](auto part, int64_t i) HWY_ATTR {
    const auto value =
        hn::NegMulAdd(step_size, update_at(f, r, i, part), hn::Mul(keep, load(d, r.value + i, part)));
    store(d, value, r.value + i, part);
    if (r.average == nullptr) return;
    const auto average = load(d, r.average + i, part);
    store(d, hn::MulAdd(hn::Set(d, f.average), hn::Sub(value, average), average), r.average + i, part);
  });
}

double squares_of_row(const float* x, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> from;
  return sum_of_row(d, count, [&](auto part, int64_t i) HWY_ATTR {
    const auto v = hn::PromoteTo(d, load(from, x + i, part));
    return hn::Mul(v, v);
  });
}

// v <- v + share * ((factor * g)^2 - v)
void average_squares(const float* x, float factor, float share, float* v, int64_t count) {
  const Floats d;
  for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
    const auto g = hn::Mul(hn::Set(d, factor), load(d, x + i, part));
    const auto before = load(d, v + i, part);
    store(d, hn::MulAdd(hn::Set(d, share), hn::Sub(hn::Mul(g, g), before), before), v + i, part);
  });
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(squares_of_updates);
HWY_EXPORT(apply_updates);
HWY_EXPORT(squares_of_row);
HWY_EXPORT(average_squares);

constexpr int64_t kPiece = 32768;  // elements per piece of work
constexpr int64_t kColumns = 256;  // per piece of work

// r <- r + share * (mean of (factor * g)^2 over each row - r), likewise c over each column.
void average_rows(const ParameterUpdate& m, const float* g, double factor, double share, float* r) {
  const int64_t rows_a_piece = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, m.cols));
  parallel_for(m.matrices * m.rows, rows_a_piece, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double sum = HWY_DYNAMIC_DISPATCH(squares_of_row)(g + row * m.cols, m.cols);
      const double mean = factor * factor * sum / static_cast<double>(m.cols);
      r[row] = static_cast<float>(r[row] + share * (mean - r[row]));
    }
  });
}

void average_columns(const ParameterUpdate& m, const float* g, double factor, double share, float* c) {
  const int64_t blocks = (m.cols + kColumns - 1) / kColumns;
  parallel_for(m.matrices * blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t matrix = i / blocks, begin = i % blocks * kColumns;
      const int64_t width = std::min(kColumns, m.cols - begin);
      const float* from = g + matrix * m.rows * m.cols + begin;
      std::array<double, kColumns> sums{};
      for (int64_t row = 0; row < m.rows; ++row) {
        for (int64_t j = 0; j < width; ++j) {
          const double x = from[row * m.cols + j];
          sums[static_cast<size_t>(j)] += x * x;
        }
      }
      float* to = c + matrix * m.cols + begin;
      for (int64_t j = 0; j < width; ++j) {
        const double mean = factor * factor * sums[static_cast<size_t>(j)] / static_cast<double>(m.rows);
        to[j] = static_cast<float>(to[j] + share * (mean - to[j]));
      }
    }
  });
}

// 1 / mean(r) of each matrix.
std::vector<float> row_factors(const ParameterUpdate& m, const float* r, float smallest) {
  std::vector<float> factors;
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix) {
    double sum = 0;
    for (int64_t row = 0; row < m.rows; ++row) sum += r[matrix * m.rows + row];
    const double mean = sum / static_cast<double>(m.rows);
    factors.push_back(static_cast<float>(1 / std::max(mean, static_cast<double>(smallest))));
  }
  return factors;
}

// Calls body(piece, row) for the rows of all matrices, or for pieces of a vector, in parallel.
template <class Body>
void for_rows(const ParameterUpdate& m, const std::vector<float>& factors, const Body& body) {
  float* value = m.value;
  const float* gradient = m.gradient;
  float* average = m.average;
  const auto at = [&](int64_t element, const float* column, float row, int64_t count) {
    return AdafactorRow{
        value + element, gradient + element, column, row, average ? average + element : nullptr, count};
  };
  if (!m.matrix) {
    const float* v = m.state[0];
    parallel_for(m.cols, kPiece, [&](int64_t begin, int64_t end) {
      body(begin / kPiece, at(begin, v + begin, 1, end - begin));
    });
    return;
  }
  const float *r = m.state[0], *c = m.state[1];
  parallel_for(m.matrices * m.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t matrix = row / m.rows;
      body(row, at(row * m.cols, c + matrix * m.cols, r[row] * factors[static_cast<size_t>(matrix)], m.cols));
    }
  });
}

void adafactor_slot(const AdafactorRule& rule, const OptimizerPass& pass, const ParameterUpdate& m) {
  const int64_t elements = m.count();
  if (elements == 0) return;
  const bool matrix = m.matrix;
  const double step = static_cast<double>(m.step), learning_rate = m.learning_rate;
  const double share = std::pow(step, static_cast<double>(rule.beta2_decay));
  const double factor = pass.gradient_factor;
  const float* gradient = m.gradient;

  std::vector<float> factors;
  if (matrix) {
    average_rows(m, gradient, factor, share, m.state[0]);
    average_columns(m, gradient, factor, share, m.state[1]);
    factors = row_factors(m, m.state[0], rule.epsilon1);
  } else {
    float* v = m.state[0];
    parallel_for(elements, kPiece, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(average_squares)
      (gradient + begin, pass.gradient_factor, static_cast<float>(share), v + begin, end - begin);
    });
  }

  const double rms = std::sqrt(sum_of_squares(m.value, elements) / static_cast<double>(elements));
  const double relative = std::max(static_cast<double>(rule.epsilon2), rms);
  AdafactorFactors f{.gradient = pass.gradient_factor,
                     .smallest = rule.epsilon1 * rule.epsilon1,
                     .keep = static_cast<float>(1 - learning_rate * static_cast<double>(m.weight_decay)),
                     .step_size = 0,
                     .average = static_cast<float>(1 - static_cast<double>(pass.average_decay))};
  // Added in the order of rows or pieces, independent of threads.
  std::vector<double> sums(
      static_cast<size_t>(matrix ? m.matrices * m.rows : (elements + kPiece - 1) / kPiece));
  for_rows(m, factors, [&](int64_t piece, const AdafactorRow& row) {
    sums[static_cast<size_t>(piece)] = HWY_DYNAMIC_DISPATCH(squares_of_updates)(f, row);
  });
  double squares = 0;
  for (const double sum : sums) squares += sum;
  const double update_rms = std::sqrt(squares / static_cast<double>(elements));
  const double clip = std::max(1.0, update_rms / static_cast<double>(rule.clip_threshold));
  f.step_size = static_cast<float>(relative * std::min(learning_rate, 1 / std::sqrt(step)) / clip);
  for_rows(m, factors, [&](int64_t /*piece*/, const AdafactorRow& row) {
    HWY_DYNAMIC_DISPATCH(apply_updates)(f, row);
  });
}

}  // namespace

void adafactor(const AdafactorRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  for (const ParameterUpdate& slot : slots) adafactor_slot(rule, pass, slot);
}

}  // namespace qkv::kernels::cpu
#endif

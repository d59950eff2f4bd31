#include "qkv/pipelines/row_results.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/kernels/loss.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/models/hub/model_file.h"

namespace qkv::pipelines {

Tensor finite_logits(const Variable& logits) {
  if (!kernels::all_finite(logits.value()))
    throw NumericError("model: expected finite logits, found NaN or infinity");
  return to_host(logits.value());
}

Tensor probabilities(const Variable& logits, models::ProblemType problem) {
  Tensor values = finite_logits(logits).clone();
  switch (problem) {
    case models::ProblemType::single_label:
      kernels::softmax(values, values);
      break;
    case models::ProblemType::multi_label:
      for (int64_t i = 0; i < values.numel(); ++i) values.data()[i] = 1 / (1 + std::exp(-values.data()[i]));
      break;
    case models::ProblemType::regression:
      break;
  }
  return values;
}

std::span<const float> row_of(const Tensor& matrix, int64_t row) {
  return {matrix.data() + row * matrix.cols(), static_cast<size_t>(matrix.cols())};
}

std::vector<size_t> largest(std::span<const float> values, size_t count) {
  std::vector<size_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  const auto end = indices.begin() + static_cast<std::ptrdiff_t>(std::min(count, indices.size()));
  std::ranges::partial_sort(indices, end, [&](size_t a, size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  indices.erase(end, indices.end());
  return indices;
}

std::vector<LabelProbability> ranked(std::span<const float> probabilities,
                                     const std::vector<std::string>& labels) {
  std::vector<LabelProbability> result;
  for (const size_t label : largest(probabilities, labels.size()))
    result.push_back({labels[label], probabilities[label]});
  return result;
}

namespace {

// The sum of the rows, each multiplied by weight(row), divided by `divisor`.
template <class Weight>
std::vector<float> sum_of_rows(const Tensor& hidden, const Weight& weight, double divisor) {
  std::vector<double> sums(static_cast<size_t>(hidden.cols()));
  for (int64_t r = 0; r < hidden.rows(); ++r) {
    const auto row = row_of(hidden, r);
    for (size_t c = 0; c < sums.size(); ++c) sums[c] += weight(r) * double{row[c]};
  }
  std::vector<float> result;
  for (const double sum : sums) result.push_back(static_cast<float>(sum / divisor));
  return result;
}

std::vector<float> one_row(const Tensor& hidden, int64_t row) {
  const Tensor host = to_host(hidden.slice_rows(row, 1));
  const auto values = row_of(host, 0);
  return {values.begin(), values.end()};
}

std::vector<float> max_of_rows(const Tensor& hidden) {
  std::vector<float> maxima = one_row(hidden, 0);
  for (int64_t r = 1; r < hidden.rows(); ++r) {
    const auto row = row_of(hidden, r);
    for (size_t c = 0; c < maxima.size(); ++c) maxima[c] = std::max(maxima[c], row[c]);
  }
  return maxima;
}

}  // namespace

std::vector<float> pooled_rows(const Tensor& hidden, Pooling pooling) {
  const auto rows = static_cast<double>(hidden.rows());
  const auto equal = [](int64_t) { return 1.0; };
  switch (pooling) {
    case Pooling::mean:
      return sum_of_rows(to_host(hidden), equal, rows);
    case Pooling::mean_sqrt_len:
      return sum_of_rows(to_host(hidden), equal, std::sqrt(rows));
    case Pooling::weighted_mean:
      return sum_of_rows(
          to_host(hidden), [](int64_t row) { return static_cast<double>(row + 1); }, rows * (rows + 1) / 2);
    case Pooling::max:
      return max_of_rows(to_host(hidden));
    case Pooling::last_token:
      return one_row(hidden, hidden.rows() - 1);
    case Pooling::cls:
    case Pooling::pooler:
      break;
  }
  return one_row(hidden, 0);
}

void scale_to_one(std::vector<float>& vector) {
  double squares = 0;
  for (const float x : vector) squares += double{x} * double{x};
  if (squares == 0) return;
  const double factor = 1 / std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(double{x} * factor);
}

std::vector<float> finished(std::vector<float> vector, const EmbedOptions& options) {
  if (options.dimensions) vector.resize(static_cast<size_t>(*options.dimensions));
  if (options.normalize) scale_to_one(vector);
  return vector;
}

void require_hidden(const Tensor& hidden, std::optional<int64_t> tokens, int64_t d_model) {
  const bool fits = hidden.defined() && hidden.dtype() == DType::f32 && hidden.rank() == 2 &&
                    hidden.rows() > 0 && hidden.cols() == d_model &&
                    hidden.rows() == tokens.value_or(hidden.rows());
  if (fits) return;
  const std::string rows = tokens ? concat(*tokens) : std::string("tokens");
  throw ShapeError(
      concat("pipeline: expected hidden states f32 [", rows, ", ", d_model, "], found ",
             hidden.defined() ? concat(name_of(hidden.dtype()), " ", hidden.shape()) : std::string("none")));
}

void require_finite(const Tensor& hidden) {
  if (!kernels::all_finite(hidden))
    throw NumericError("model: expected finite hidden states, found NaN or infinity");
}

void require_head(bool has, const std::filesystem::path& folder, const char* head) {
  if (!has)
    throw DataError(concat(models::model_file_name(folder, "config.json"), ": expected a model with ", head,
                           " head, found none"));
}

void require_vector(const EmbedOptions& options, bool model_has_pooler, int64_t width) {
  if (options.pooling == Pooling::pooler && !model_has_pooler)
    throw UsageError("embed: expected a model with a pooler, found none");
  if (const int64_t found = options.dimensions.value_or(width); found < 1 || found > width)
    throw UsageError(concat("dimensions: expected 1 to ", width, ", the model's, found ", found));
}

}  // namespace qkv::pipelines

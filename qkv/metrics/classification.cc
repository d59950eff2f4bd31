#include "qkv/metrics/classification.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/base/error.h"

namespace qkv::metrics {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

int64_t checked(int64_t classes) {
  if (classes < 1) throw UsageError(concat("confusion matrix: expected at least 1 class, found ", classes));
  return classes;
}

void require_pairs(const char* metric, std::span<const double> x, std::span<const double> y) {
  if (x.size() == y.size() && x.size() >= 2) return;
  throw UsageError(concat(metric, ": expected two lists of one length, at least 2, found ", x.size(), " and ",
                          y.size(), " numbers"));
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t classes)
    : classes_(checked(classes)), counts_(static_cast<size_t>(classes * (classes + 1))) {}

void ConfusionMatrix::check(int64_t of) const {
  if (of >= 0 && of < classes_) return;
  throw UsageError(concat("confusion matrix: expected a class of 0 to ", classes_ - 1, ", found ", of));
}

void ConfusionMatrix::add(int64_t truth, int64_t predicted) {
  check(truth);
  check(predicted);
  ++counts_[static_cast<size_t>(index(truth, predicted))];
  ++total_;
}

void ConfusionMatrix::add_without_prediction(int64_t truth, int64_t count) {
  check(truth);
  counts_[static_cast<size_t>(index(truth, classes_))] += count;
  total_ += count;
}

int64_t ConfusionMatrix::count(int64_t truth, int64_t predicted) const {
  check(truth);
  if (predicted != classes_) check(predicted);
  return counts_[static_cast<size_t>(index(truth, predicted))];
}

int64_t ConfusionMatrix::truths(int64_t of) const {
  int64_t sum = 0;
  for (int64_t predicted = 0; predicted <= classes_; ++predicted) sum += count(of, predicted);
  return sum;
}

int64_t ConfusionMatrix::predictions(int64_t of) const {
  int64_t sum = 0;
  for (int64_t truth = 0; truth < classes_; ++truth) sum += count(truth, of);
  return sum;
}

int64_t ConfusionMatrix::correct() const {
  int64_t sum = 0;
  for (int64_t of = 0; of < classes_; ++of) sum += count(of, of);
  return sum;
}

double ConfusionMatrix::accuracy() const { return ratio(correct(), total_); }

double ConfusionMatrix::precision(int64_t of) const { return ratio(count(of, of), predictions(of)); }

double ConfusionMatrix::recall(int64_t of) const { return ratio(count(of, of), truths(of)); }

double ConfusionMatrix::f1(int64_t of) const {
  return ratio(2 * count(of, of), predictions(of) + truths(of));
}

double ConfusionMatrix::macro_f1() const {
  double sum = 0;
  int64_t present = 0;
  for (int64_t of = 0; of < classes_; ++of) {
    if (truths(of) + predictions(of) == 0) continue;
    sum += f1(of);
    ++present;
  }
  return present == 0 ? 0 : sum / static_cast<double>(present);
}

double ConfusionMatrix::micro_f1() const {
  int64_t predicted = 0;
  for (int64_t of = 0; of < classes_; ++of) predicted += predictions(of);
  return ratio(2 * correct(), predicted + total_);
}

double ConfusionMatrix::matthews() const {
  // Covariances of the indicators of classes, times total^2. "No prediction" is one more predicted class.
  const auto square = [](double x) { return x * x; };
  const auto all = static_cast<double>(total_);
  double products = 0, truth_squares = 0, prediction_squares = 0, predicted = 0;
  for (int64_t of = 0; of < classes_; ++of) {
    const auto t = static_cast<double>(truths(of)), p = static_cast<double>(predictions(of));
    products += t * p;
    truth_squares += t * t;
    prediction_squares += p * p;
    predicted += p;
  }
  prediction_squares += square(all - predicted);
  const double both = (square(all) - truth_squares) * (square(all) - prediction_squares);
  if (both <= 0) return 0;
  return (static_cast<double>(correct()) * all - products) / std::sqrt(both);
}

double pearson(std::span<const double> x, std::span<const double> y) {
  require_pairs("pearson", x, y);
  const auto mean = [](std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const double mean_x = mean(x), mean_y = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  if (xx == 0 || yy == 0) return 0;
  return std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0);
}

double spearman(std::span<const double> x, std::span<const double> y) {
  require_pairs("spearman", x, y);
  return pearson(ranks(x), ranks(y));
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + end + 1) / 2;  // the mean of begin + 1 .. end
    for (size_t i = begin; i < end; ++i) result[order[i]] = rank;
    begin = end;
  }
  return result;
}

}  // namespace qkv::metrics

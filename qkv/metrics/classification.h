#pragma once
// Metrics of classifiers and of predicted numbers. Definitions and treatment of undefined ratios (they are 0)
// follow scikit-learn; tests compare.

#include <cstdint>
#include <span>
#include <vector>

namespace qkv::metrics {

// Counts of (true class, predicted class). An item without a prediction counts as wrong in all metrics.
class ConfusionMatrix {
 public:
  // Throws UsageError for less than one class.
  explicit ConfusionMatrix(int64_t classes);

  // Classes are 0 to classes() - 1. Throws UsageError for others.
  void add(int64_t truth, int64_t predicted);
  void add_without_prediction(int64_t truth, int64_t count = 1);

  int64_t classes() const { return classes_; }
  int64_t count(int64_t truth, int64_t predicted) const;
  int64_t without_prediction(int64_t truth) const { return count(truth, classes_); }
  int64_t total() const { return total_; }

  int64_t truths(int64_t of) const;       // items of the class
  int64_t predictions(int64_t of) const;  // items predicted as the class
  int64_t correct() const;

  double accuracy() const;
  double precision(int64_t of) const;  // correct predictions of the class / its predictions
  double recall(int64_t of) const;     // correct predictions of the class / its items
  double f1(int64_t of) const;         // 2 correct / (predictions + items), the harmonic mean of both
  // The mean of f1() over the classes that occur among truths or predictions.
  double macro_f1() const;
  // F1 of the sums over classes: the accuracy, unless items are without a prediction.
  double micro_f1() const;
  // Matthews' correlation (1975, equation 12.2) for any number of classes: Gorodkin 2004, equation 8.
  double matthews() const;

 private:
  int64_t index(int64_t truth, int64_t predicted) const { return truth * (classes_ + 1) + predicted; }
  void check(int64_t of) const;

  int64_t classes_, total_ = 0;
  std::vector<int64_t> counts_;  // [classes, classes + 1]; the last column: no prediction
};

// Pearson's correlation of two lists of equal length; 0 if one is constant. Throws UsageError for lists of
// different lengths or of less than two numbers.
double pearson(std::span<const double> x, std::span<const double> y);

// Spearman's rank correlation (1904): Pearson's of the ranks(). Likewise.
double spearman(std::span<const double> x, std::span<const double> y);

// The rank of each number, from 1; equal numbers have the mean of their ranks.
std::vector<double> ranks(std::span<const double> values);

}  // namespace qkv::metrics

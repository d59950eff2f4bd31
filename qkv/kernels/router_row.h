#pragma once
// The router of one token, for backends in which a thread computes a token.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "qkv/kernels/backend/router.h"

namespace qkv::kernels {

class RouterRow {
 public:
  // logits: [experts].
  RouterRow(const RouterRule& rule, const float* logits)
      : rule_(rule), z_(logits, static_cast<size_t>(rule.experts)) {}

  // correction: [experts], or null. chosen: [per_token].
  void choose(const float* correction, int32_t* chosen) const {
    std::vector<double> scores(z_.begin(), z_.end());
    if (correction != nullptr || rule_.groups > 1) {
      if (!rule_.corrects_logits) scores = probabilities();
      for (size_t e = 0; correction != nullptr && e < scores.size(); ++e) scores[e] += double{correction[e]};
    }
    for (double& score : scores) score = std::isnan(score) ? kLeast : score;
    if (rule_.groups > 1) leave_best_groups(scores);
    std::vector<int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + rule_.per_token, order.end(), [&](int32_t a, int32_t b) {
      const double first = scores[static_cast<size_t>(a)], second = scores[static_cast<size_t>(b)];
      return first > second || (first == second && a < b);
    });
    std::copy_n(order.begin(), rule_.per_token, chosen);
  }

  // [per_token]
  std::vector<double> weights(const int32_t* chosen) const {
    std::vector<double> result = shares(chosen);
    for (double& weight : result) weight *= rule_.sparse_mixer > 0 ? 1 : double{rule_.scale};
    return result;
  }

  // [experts], for the gradient of the weights, [per_token].
  std::vector<double> gradient(const int32_t* chosen, const float* d_weights) const {
    const std::vector<double> share = shares(chosen);
    std::vector<double> dz(z_.size());
    if (rule_.sparse_mixer > 0) {
      for (size_t r = 0; r < share.size(); ++r) {
        const std::vector<double> p = competing(chosen, r);
        const double own = double{d_weights[r]} * share[r];
        dz[expert(chosen, r)] += own;
        for (size_t e = 0; e < dz.size(); ++e) dz[e] -= own * p[e];
      }
      return dz;
    }
    const std::vector<double> p = probabilities();
    double mean = 0;
    for (size_t r = 0; r < share.size(); ++r) mean += double{d_weights[r]} * share[r];
    // With share_r = p_r / sum of p, d share_r / d z_q = share_r ([r = q] - share_q), the same for the
    // softmax as for exponentials, and times 1 - p_q for sigmoids.
    for (size_t r = 0; r < share.size(); ++r) {
      const size_t e = expert(chosen, r);
      dz[e] +=
          share[r] * (double{d_weights[r]} - (rule_.normalise ? mean : 0)) * (rule_.sigmoid ? 1 - p[e] : 1);
    }
    for (size_t e = 0; e < dz.size(); ++e) {
      if (!rule_.normalise && !rule_.sigmoid) dz[e] -= p[e] * mean;
      dz[e] *= double{rule_.scale};
    }
    return dz;
  }

 private:
  static constexpr double kLeast = -std::numeric_limits<double>::infinity();
  static constexpr double kNotZero = 1e-20;  // of a sum of sigmoids

  // The weights before they are scaled.
  std::vector<double> shares(const int32_t* chosen) const {
    std::vector<double> result(static_cast<size_t>(rule_.per_token));
    if (rule_.sparse_mixer > 0) {
      for (size_t r = 0; r < result.size(); ++r) result[r] = competing(chosen, r)[expert(chosen, r)];
      return result;
    }
    const std::vector<double> p = probabilities();
    for (size_t r = 0; r < result.size(); ++r) result[r] = p[expert(chosen, r)];
    if (!rule_.normalise) return result;
    const double sum = std::accumulate(result.begin(), result.end(), rule_.sigmoid ? kNotZero : 0.0);
    for (double& share : result) share /= sum;
    return result;
  }

  static size_t expert(const int32_t* chosen, size_t r) { return static_cast<size_t>(chosen[r]); }

  // The softmax of the logits of some experts, the others 0.
  template <class Among>
  std::vector<double> softmax(const Among& among) const {
    double largest = kLeast, sum = 0;
    for (size_t e = 0; e < z_.size(); ++e) largest = among(e) ? std::max(largest, double{z_[e]}) : largest;
    std::vector<double> p(z_.size());
    for (size_t e = 0; e < p.size(); ++e) sum += p[e] = among(e) ? std::exp(double{z_[e]} - largest) : 0;
    for (double& one : p) one /= sum;
    return p;
  }

  std::vector<double> probabilities() const {
    if (!rule_.sigmoid) return softmax([](size_t) { return true; });
    std::vector<double> p(z_.begin(), z_.end());
    for (double& one : p) one = 1 / (1 + std::exp(-one));
    return p;
  }

  // The softmax over the experts that compete with that of rank r.
  std::vector<double> competing(const int32_t* chosen, size_t r) const {
    const float largest = z_[expert(chosen, r)];
    return softmax([&, first = expert(chosen, 0)](size_t e) {
      const float below = (largest - z_[e]) / std::max(std::abs(z_[e]), largest);
      return !(below > 2 * rule_.sparse_mixer) && (r == 0 || e != first);
    });
  }

  void leave_best_groups(std::vector<double>& scores) const {
    const auto groups = static_cast<size_t>(rule_.groups);
    const auto width = static_cast<std::ptrdiff_t>(scores.size() / groups);
    std::vector<double> of_groups(groups);
    std::vector<std::ptrdiff_t> order(groups);
    for (size_t g = 0; g < groups; ++g) {
      order[g] = static_cast<std::ptrdiff_t>(g);
      std::vector<double> own(scores.begin() + order[g] * width, scores.begin() + (order[g] + 1) * width);
      std::partial_sort(own.begin(), own.begin() + rule_.group_scores, own.end(), std::greater<>());
      of_groups[g] = std::accumulate(own.begin(), own.begin() + rule_.group_scores, 0.0);
    }
    std::ranges::stable_sort(order, [&](std::ptrdiff_t a, std::ptrdiff_t b) {
      return of_groups[static_cast<size_t>(a)] > of_groups[static_cast<size_t>(b)];
    });
    for (auto left = static_cast<size_t>(rule_.group_choices); left < groups; ++left)
      std::fill_n(scores.begin() + order[left] * width, width, kLeast);
  }

  const RouterRule& rule_;
  std::span<const float> z_;
};

}  // namespace qkv::kernels

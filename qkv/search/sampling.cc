#include "qkv/search/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "qkv/base/philox.h"

namespace qkv::search {
namespace {

// If the temperature is so low that scaled logits overflow, take the limit 0: only the most likely tokens
// remain.
void scale_by_temperature(std::span<float> logits, float largest, double temperature) {
  const auto scale = static_cast<float>(1 / temperature);
  const bool overflows = !std::isfinite(scale) || !std::isfinite(largest * scale);
  for (float& logit : logits) logit = overflows ? (logit == largest ? 0 : kImpossible) : logit * scale;
}

// Ties with the k-th token are kept.
void keep_top_k(std::span<float> logits, size_t k) {
  if (k >= logits.size()) return;
  std::vector<float> copy(logits.begin(), logits.end());
  const auto kth = copy.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::ranges::nth_element(copy, kth, std::greater());
  for (float& logit : logits) {
    if (logit < *kth) logit = kImpossible;
  }
}

// In place, over the remaining tokens. Summed in double precision, for large vocabularies.
void softmax(std::span<float> logits) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (float& x : logits) {
    x = std::exp(x - largest);
    sum += static_cast<double>(x);
  }
  for (float& x : logits) x = static_cast<float>(static_cast<double>(x) / sum);
}

// The smallest set of most likely tokens with total probability of at least p (nucleus sampling, Holtzman et
// al. 2020).
void keep_top_p(std::span<float> probabilities, double p) {
  struct Token {
    float probability;
    size_t id;
  };
  std::vector<Token> tokens;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] > 0) tokens.push_back({probabilities[i], i});
  }
  const auto better = [](const Token& a, const Token& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
  };
  // Few tokens sum to p as a rule, so only the best are sorted: 64, then four times as many.
  double sum = 0;
  for (size_t sorted = 0, kept = 0; kept < tokens.size(); ++kept) {
    if (sum >= p) {
      for (size_t i = kept; i < tokens.size(); ++i) probabilities[tokens[i].id] = 0;
      return;
    }
    if (kept == sorted) {
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(sorted);
      sorted = std::min(tokens.size(), std::max<size_t>(64, 4 * sorted));
      const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(sorted);
      std::nth_element(begin, end - 1, tokens.end(), better);
      std::sort(begin, end, better);
    }
    sum += static_cast<double>(tokens[kept].probability);
  }
}

void scale_to_one(std::span<float> probabilities) {
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (float& p : probabilities) p = static_cast<float>(static_cast<double>(p) / sum);
}

}  // namespace

bool shape_distribution(std::span<float> logits, const Sampling& options) {
  const float largest = *std::ranges::max_element(logits);
  if (largest == kImpossible) return false;
  if (options.temperature != 1) scale_by_temperature(logits, largest, options.temperature);
  if (options.top_k > 0) keep_top_k(logits, static_cast<size_t>(options.top_k));
  softmax(logits);
  if (options.top_p < 1) {
    keep_top_p(logits, options.top_p);
    scale_to_one(logits);
  }
  if (options.min_p > 0) {
    const auto least = static_cast<float>(options.min_p) * *std::ranges::max_element(logits);
    for (float& p : logits) {
      if (p < least) p = 0;
    }
    scale_to_one(logits);
  }
  return true;
}

int32_t pick(std::span<const float> probabilities, double number) {
  double sum = 0;
  int32_t last = 0;  // the last token with a nonzero probability: rounding can leave `number` beyond the sum
  for (size_t id = 0; id < probabilities.size(); ++id) {
    if (probabilities[id] <= 0) continue;
    last = static_cast<int32_t>(id);
    sum += static_cast<double>(probabilities[id]);
    if (number < sum) break;
  }
  return last;
}

double random_number(uint64_t seed, uint64_t key, int32_t sample, int position) {
  const PhiloxCounter words =
      philox4x32(seed, {static_cast<uint32_t>(position), static_cast<uint32_t>(sample),
                        static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace qkv::search

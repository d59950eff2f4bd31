#include "qkv/pipelines/speech/timestamp_rules.h"

#include <algorithm>
#include <cmath>

namespace qkv::pipelines {
namespace {

using search::kImpossible;

float largest(const search::NextTokens& next, int32_t begin, int32_t end) {
  float best = kImpossible;
  for (int32_t id = begin; id < end; ++id) best = std::max(best, next[id]);
  return best;
}

// log(sum of exp(score)).
double log_sum(const search::NextTokens& next, int32_t begin, int32_t end) {
  const float best = largest(next, begin, end);
  if (best == kImpossible) return kImpossible;
  double sum = 0;
  for (int32_t id = begin; id < end; ++id) sum += std::exp(static_cast<double>(next[id]) - best);
  return best + std::log(sum);
}

void forbid(search::NextTokens& next, int32_t begin, int32_t end) {
  for (int32_t id = begin; id < end; ++id) next.forbid(id);
}

}  // namespace

void TimestampRules::apply(const search::StepContext& context, search::NextTokens& next) const {
  const auto vocabulary = static_cast<int32_t>(next.vocabulary());
  const int32_t first = tokens_.first_timestamp();
  const search::Ids output = context.output();
  const auto is_timestamp = [&](size_t from_end) {
    return output.size() >= from_end && output[output.size() - from_end] >= first;
  };
  next.forbid(tokens_.no_timestamps);
  const bool after = is_timestamp(1), after_pair = after && (output.size() < 2 || is_timestamp(2));
  if (after_pair) {
    forbid(next, first, vocabulary);
  } else if (after) {
    forbid(next, 0, tokens_.eos);
  }
  const auto is_time = [&](int32_t id) { return id >= first; };
  const auto last = std::find_if(output.rbegin(), output.rend(), is_time);
  if (last != output.rend()) forbid(next, first, *last + (after && !after_pair ? 0 : 1));
  if (output.empty()) {
    forbid(next, 0, first);
    if (max_first_) forbid(next, first + *max_first_ + 1, vocabulary);
  }
  if (log_sum(next, first, vocabulary) > largest(next, 0, first)) forbid(next, 0, first);
}

void LanguageChoice::apply(const search::StepContext& /*context*/, search::NextTokens& next) const {
  std::vector<int32_t> ids;
  std::vector<float> scores;
  for (const auto& [code, id] : tokens_.languages) {
    ids.push_back(id);
    scores.push_back(next[id]);
  }
  const float best = *std::ranges::max_element(scores);
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - best);
  for (float& score : scores) score /= sum;
  probabilities_ = std::move(scores);
  std::ranges::sort(ids);
  next.allow_only(ids);
}

}  // namespace qkv::pipelines

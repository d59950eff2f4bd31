#include "qkv/search/constraints.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace qkv::search {
namespace {

// The score of an id; null outside the vocabulary.
float* score_of(std::span<float> scores, int32_t id) {
  return id >= 0 && id < std::ssize(scores) ? &scores[static_cast<size_t>(id)] : nullptr;
}

void forbid(std::span<float> scores, int32_t id) {
  if (float* score = score_of(scores, id)) *score = kImpossible;
}

// A repeated token is penalised once, however often it occurs (Keskar et al. 2019, section 4.1).
void penalize(std::span<float> scores, Ids tokens, float penalty) {
  std::vector<bool> seen(scores.size());
  for (const int32_t id : tokens) {
    float* score = score_of(scores, id);
    if (score == nullptr || seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    *score = *score < 0 ? *score * penalty : *score / penalty;
  }
}

bool ends_with(Ids history, Ids tokens) {
  return history.size() >= tokens.size() && std::ranges::equal(history.last(tokens.size()), tokens);
}

// Forbids what would complete an n-gram of `tokens`.
void forbid_ngrams(std::span<float> scores, Ids tokens, Ids history, int size) {
  const auto n = static_cast<size_t>(size);
  if (n == 0 || history.size() + 1 < n) return;
  const Ids last = history.last(n - 1);
  for (size_t begin = 0; begin + n <= tokens.size(); ++begin) {
    if (std::ranges::equal(tokens.subspan(begin, n - 1), last)) forbid(scores, tokens[begin + n - 1]);
  }
}

void add_biases(std::span<float> scores, Ids history, const std::vector<models::SequenceBias>& biases) {
  for (const models::SequenceBias& one : biases) {
    float* score = score_of(scores, one.ids.back());
    if (score != nullptr && ends_with(history, Ids(one.ids).first(one.ids.size() - 1))) *score += one.bias;
  }
}

void raise_ends(std::span<float> scores, const StepContext& context, const models::TokenRules& rules) {
  const int64_t beyond = context.new_tokens - rules.decay_start;
  if (beyond <= 0) return;
  const auto factor = static_cast<float>(std::pow(rules.decay_factor, static_cast<double>(beyond)) - 1);
  for (const int32_t id : context.ends) {
    float* score = score_of(scores, id);
    if (score != nullptr && std::isfinite(*score)) *score += std::abs(*score) * factor;
  }
}

}  // namespace

void constrain(std::span<float> scores, const StepContext& context, const SearchOptions& options) {
  const models::TokenRules& rules = options.rules;
  const Ids history = context.history;
  add_biases(scores, history, rules.sequence_bias);
  if (rules.encoder_repetition_penalty != 1)
    penalize(scores, context.source, 1 / rules.encoder_repetition_penalty);
  if (options.repetition_penalty != 1) penalize(scores, history, options.repetition_penalty);
  forbid_ngrams(scores, history, history, options.no_repeat_ngram);
  forbid_ngrams(scores, context.source, history, rules.encoder_no_repeat_ngram);
  for (const std::vector<int32_t>& sequence : options.bad_words) {
    const bool is_end = sequence.size() == 1 && std::ranges::count(context.ends, sequence.front()) > 0;
    if (!is_end && ends_with(history, Ids(sequence).first(sequence.size() - 1)))
      forbid(scores, sequence.back());
  }
  if (context.new_tokens < options.min_new_tokens) {
    for (const int32_t id : context.ends) forbid(scores, id);
  }
  if (rules.forced_bos && context.length == 1) {
    std::ranges::fill(scores, kImpossible);
    if (float* score = score_of(scores, *rules.forced_bos)) *score = 0;
  }
  if (rules.decay_factor != 1) raise_ends(scores, context, rules);
  for (const int32_t id : options.suppress_tokens) forbid(scores, id);
  // A forced first token does not count as the beginning.
  const bool after_forced = rules.forced_bos && context.length == context.new_tokens + 1;
  if (context.new_tokens == (after_forced ? 1 : 0)) {
    for (const int32_t id : rules.begin_suppress_tokens) forbid(scores, id);
  }
}

bool looks_back(const SearchOptions& options) {
  const auto is_long = [](const auto& ids) { return ids.size() > 1; };
  return options.repetition_penalty != 1 || options.no_repeat_ngram > 0 ||
         options.rules.encoder_no_repeat_ngram > 0 || std::ranges::any_of(options.bad_words, is_long) ||
         std::ranges::any_of(options.rules.sequence_bias, is_long, &models::SequenceBias::ids);
}

}  // namespace qkv::search

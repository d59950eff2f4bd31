#include "qkv/search/constraints.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace qkv::search {
namespace {

// The score of an id; null outside the vocabulary.
float* score_of(std::span<float> scores, int32_t id) {
  return id >= 0 && id < std::ssize(scores) ? &scores[static_cast<size_t>(id)] : nullptr;
}

// A repeated token is penalised once, however often it occurs (Keskar et al. 2019, section 4.1).
void penalize(std::span<float> scores, Ids tokens, float penalty) {
  std::vector<float> penalized;
  for (const int32_t id : tokens) {
    const float* score = score_of(scores, id);
    penalized.push_back(score == nullptr ? 0 : *score < 0 ? *score * penalty : *score / penalty);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (float* score = score_of(scores, tokens[i])) *score = penalized[i];
  }
}

bool ends_with(Ids history, Ids tokens) {
  return history.size() >= tokens.size() && std::ranges::equal(history.last(tokens.size()), tokens);
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

// Forbids what would complete an n-gram of `tokens`.
void forbid_ngrams(NextTokens& next, Ids tokens, Ids history, int size) {
  const auto n = static_cast<size_t>(size);
  if (history.size() + 1 < n) return;
  const Ids last = history.last(n - 1);
  for (size_t begin = 0; begin + n <= tokens.size(); ++begin) {
    if (std::ranges::equal(tokens.subspan(begin, n - 1), last)) next.forbid(tokens[begin + n - 1]);
  }
}

void forbid_all(NextTokens& next, Ids ids) {
  for (const int32_t id : ids) next.forbid(id);
}

template <class Function>
class Rule : public Constraint {
 public:
  explicit Rule(Function function) : function_(std::move(function)) {}
  void apply(const StepContext& context, NextTokens& next) const override { function_(context, next); }

 private:
  Function function_;
};

}  // namespace

void NextTokens::allow_only(Ids ids) {
  std::vector<float> kept;
  for (const int32_t id : ids) kept.push_back(contains(id) ? score(id) : kImpossible);
  std::ranges::fill(scores_, kImpossible);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (contains(ids[i])) score(ids[i]) = kept[i];
  }
}

void NextTokens::force(int32_t id) {
  std::ranges::fill(scores_, kImpossible);
  if (contains(id)) score(id) = 0;
}

void change_scores(std::span<float> scores, const StepContext& context, const SearchOptions& options) {
  const models::TokenRules& rules = options.rules;
  add_biases(scores, context.history, rules.sequence_bias);
  if (rules.encoder_repetition_penalty != 1)
    penalize(scores, context.source, 1 / rules.encoder_repetition_penalty);
  if (options.repetition_penalty != 1) penalize(scores, context.history, options.repetition_penalty);
  if (rules.decay_factor != 1) raise_ends(scores, context, rules);
}

bool changes_scores(const SearchOptions& options) {
  const models::TokenRules& rules = options.rules;
  return !rules.sequence_bias.empty() || rules.encoder_repetition_penalty != 1 ||
         options.repetition_penalty != 1 || rules.decay_factor != 1;
}

Constraints constraints_of(const SearchOptions& options) {
  const models::TokenRules& rules = options.rules;
  Constraints constraints;
  const auto add = [&]<class Function>(bool wanted, Function function) {
    if (wanted) constraints.push_back(std::make_shared<const Rule<Function>>(std::move(function)));
  };
  add(options.no_repeat_ngram > 0, [&](const StepContext& context, NextTokens& next) {
    forbid_ngrams(next, context.history, context.history, options.no_repeat_ngram);
  });
  add(rules.encoder_no_repeat_ngram > 0, [&](const StepContext& context, NextTokens& next) {
    forbid_ngrams(next, context.source, context.history, rules.encoder_no_repeat_ngram);
  });
  add(!options.bad_words.empty(), [&](const StepContext& context, NextTokens& next) {
    for (const std::vector<int32_t>& sequence : options.bad_words) {
      const bool is_end = sequence.size() == 1 && std::ranges::count(context.ends, sequence.front()) > 0;
      if (!is_end && ends_with(context.history, Ids(sequence).first(sequence.size() - 1)))
        next.forbid(sequence.back());
    }
  });
  add(options.min_new_tokens > 0, [&](const StepContext& context, NextTokens& next) {
    if (context.new_tokens < options.min_new_tokens) forbid_all(next, context.ends);
  });
  add(rules.forced_bos.has_value(), [&](const StepContext& context, NextTokens& next) {
    if (context.history.size() == 1) next.force(*rules.forced_bos);
  });
  add(!options.suppress_tokens.empty(),
      [&](const StepContext& /*context*/, NextTokens& next) { forbid_all(next, options.suppress_tokens); });
  add(!rules.begin_suppress_tokens.empty(), [&](const StepContext& context, NextTokens& next) {
    // A forced first token does not count as the beginning.
    const bool after_forced = rules.forced_bos && std::ssize(context.history) == context.new_tokens + 1;
    if (context.new_tokens == (after_forced ? 1 : 0)) forbid_all(next, rules.begin_suppress_tokens);
  });
  constraints.insert(constraints.end(), options.constraints.begin(), options.constraints.end());
  return constraints;
}

}  // namespace qkv::search

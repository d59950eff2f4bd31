#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/search/search.h"
#include "qkv/search/step_model.h"

namespace qkv::search {
namespace {

// Keeps sums of lengths within the range of int.
constexpr int kMaxTokens = 1'000'000'000;

template <class Number>
void require(bool good, const char* field, const char* expected, Number found) {
  if (!good) throw UsageError(concat(field, ": expected ", expected, ", found ", found));
}

}  // namespace

Words<LengthPenaltyType> words(LengthPenaltyType) {
  static constexpr std::array<std::pair<std::string_view, LengthPenaltyType>, 2> kWords{
      {{"transformers", LengthPenaltyType::power}, {"gnmt", LengthPenaltyType::gnmt}}};
  return kWords;
}

void SearchOptions::validate() const {
  require_ranges(*this);
  if (sampling && alternatives) throw UsageError("alternatives: expected a search, found sampling");
  if (sampling) {
    require(beam == 1, "beam", "1 with sampling", beam);
    require_ranges(*sampling);
  } else if (nbest > beam && !alternatives) {
    throw UsageError(concat("nbest: expected at most the beam's size of ", beam, ", found ", nbest));
  }
  require(std::isfinite(max_source_factor) && max_source_factor >= 0, "max_source_factor",
          "a number that is not negative", max_source_factor);
  require(max_source_extra >= 1, "max_source_extra", "at least 1", max_source_extra);
  if (min_new_tokens > max_new_tokens) {
    throw UsageError(concat("min_new_tokens: expected at most max_new_tokens = ", max_new_tokens, ", found ",
                            min_new_tokens));
  }
  const auto is_empty = [](const auto& ids) { return ids.empty(); };
  if (std::ranges::any_of(bad_words, is_empty))
    throw UsageError("forbidden sequence: expected at least one token, found none");
  if (std::ranges::any_of(rules.sequence_bias, is_empty, &models::SequenceBias::ids))
    throw UsageError("sequence_bias: expected at least one token, found none");
  const double encoder_penalty = rules.encoder_repetition_penalty, decay = rules.decay_factor;
  require(std::isfinite(encoder_penalty) && encoder_penalty > 0, "encoder_repetition_penalty",
          "a number above 0", encoder_penalty);
  require(rules.encoder_no_repeat_ngram >= 0, "encoder_no_repeat_ngram", "0 (no such rule) or more",
          rules.encoder_no_repeat_ngram);
  require(std::isfinite(decay) && decay > 0, "exponential_decay_length_penalty", "a factor above 0", decay);
  if (std::ranges::count(constraints, nullptr) > 0)
    throw UsageError("constraints: expected constraints, found a null pointer");
}

int SearchOptions::limit(int64_t source_tokens, int64_t prefix_tokens) const {
  require(source_tokens >= 0, "source_tokens", "a number that is not negative",
          static_cast<double>(source_tokens));
  require(prefix_tokens >= 0 && prefix_tokens <= kMaxTokens, "prefix_tokens", "0 to 1e9",
          static_cast<double>(prefix_tokens));
  require(max_new_tokens <= kMaxTokens, "max_new_tokens", "1 to 1e9", max_new_tokens);
  int new_tokens = max_new_tokens;
  if (max_source_factor > 0) {
    const double by_source = max_source_factor * static_cast<double>(source_tokens) + max_source_extra;
    // A limit below min_new_tokens would contradict it.
    if (by_source < new_tokens) new_tokens = std::max(min_new_tokens, static_cast<int>(by_source));
  }
  return static_cast<int>(prefix_tokens) + new_tokens + 1;
}

double length_penalty(LengthPenaltyType type, double alpha, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return std::pow(type == LengthPenaltyType::gnmt ? (5 + tokens) / 6 : tokens, alpha);
}

double coverage_penalty(double beta, std::span<const float> attended) {
  double sum = 0;
  for (const float weight : attended) {
    // An attention weight may underflow to 0, so its logarithm is bounded by that of the smallest float.
    const float least = std::numeric_limits<float>::min();
    sum += std::log(static_cast<double>(std::clamp(weight, least, 1.0f)));
  }
  return beta * sum;
}

void fit_positions(Request& request, int64_t positions, int64_t taken) {
  SearchOptions& options = request.options;
  const int64_t prefix = std::ssize(request.prefix);
  require(positions >= 0, "positions", "a number that is not negative", static_cast<double>(positions));
  require(taken >= 0, "taken", "a number that is not negative", static_cast<double>(taken));
  // The last new token is never an input.
  const int64_t left = positions - taken - prefix + 1;
  if (left < 1 && prefix > 0) {
    throw UsageError(concat("prefix: expected at most ", std::max<int64_t>(0, positions - taken),
                            " tokens, as the model has ", positions, " positions, found ", prefix));
  }
  if (options.max_new_tokens < 1) return;  // validate() refuses it
  options.max_new_tokens = static_cast<int>(std::clamp<int64_t>(left, 1, options.max_new_tokens));
  options.min_new_tokens = std::min(options.min_new_tokens, options.max_new_tokens);
}

void check_prefix(Ids prefix, int64_t vocabulary, int32_t eos, const SearchOptions& options) {
  if (std::ssize(prefix) > kMaxTokens)
    throw UsageError(concat("prefix: expected at most 1e9 tokens, found ", prefix.size()));
  for (const int32_t id : prefix) {
    if (id < 0 || id >= vocabulary) {
      throw UsageError(concat("prefix: expected ids from 0 to ", vocabulary - 1, ", found ", id));
    }
    if (id == eos || std::ranges::count(options.stop, id) > 0) {
      throw UsageError(concat("prefix: expected no token that ends an output, found ", id));
    }
  }
}

void StepModelOptions::validate() const {
  if (cache_dtype != DType::f32 && cache_dtype != DType::bf16 && cache_dtype != DType::q8_0)
    throw UsageError(concat("cache_dtype: expected f32, bf16 or q8_0, found ", name_of(cache_dtype)));
}

}  // namespace qkv::search

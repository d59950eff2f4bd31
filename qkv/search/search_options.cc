#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/search/search.h"

namespace qkv::search {
namespace {

void require(bool good, const char* field, const char* expected, double found) {
  if (!good) throw UsageError(concat(field, ": expected ", expected, ", found ", found));
}

}  // namespace

void SearchOptions::validate() const {
  require(beam >= 1 && beam <= 1024, "beam", "1 to 1024", beam);
  require(nbest >= 1 && nbest <= 1024, "nbest", "1 to 1024", nbest);
  if (sampling && alternatives) {
    throw UsageError("alternatives: expected a search, found that tokens are drawn at random");
  }
  if (sampling) {
    require(beam == 1, "beam", "1 where tokens are drawn at random", beam);
    const double temperature = sampling->temperature, top_p = sampling->top_p, min_p = sampling->min_p;
    require(std::isfinite(temperature) && temperature > 0, "temperature", "a number above 0", temperature);
    require(sampling->top_k >= 0, "top_k", "0 (all) or more", sampling->top_k);
    require(top_p > 0 && top_p <= 1, "top_p", "above 0 to 1", top_p);
    require(min_p >= 0 && min_p <= 1, "min_p", "0 to 1", min_p);
  } else if (nbest > beam && !alternatives) {
    throw UsageError(concat("nbest: expected at most the beam's size of ", beam, ", found ", nbest));
  }
  require(std::isfinite(length_penalty), "length_penalty", "a finite number", length_penalty);
  require(std::isfinite(coverage_penalty) && coverage_penalty >= 0, "coverage_penalty",
          "a number that is not negative", coverage_penalty);
  require(max_length >= 2, "max_length", "at least 2", max_length);
  require(std::isfinite(max_source_factor) && max_source_factor >= 0, "max_source_factor",
          "a number that is not negative", max_source_factor);
  require(max_source_extra >= 2, "max_source_extra", "at least 2", max_source_extra);
  require(min_length >= 0, "min_length", "a number that is not negative", min_length);
  if (min_length > max_length) {
    throw UsageError(
        concat("min_length: expected at most max_length = ", max_length, ", found ", min_length));
  }
  require(no_repeat_ngram >= 0, "no_repeat_ngram", "0 (no such rule) or more", no_repeat_ngram);
  require(std::isfinite(repetition_penalty) && repetition_penalty > 0, "repetition_penalty",
          "a number above 0", repetition_penalty);
  if (std::ranges::any_of(bad_words, [](const auto& ids) { return ids.empty(); })) {
    throw UsageError("forbidden sequence: expected at least one token, found none");
  }
}

int SearchOptions::limit(int64_t source_tokens, int64_t prefix_tokens) const {
  if (max_source_factor == 0) return max_length;
  const double by_source = max_source_factor * static_cast<double>(source_tokens) + max_source_extra +
                           static_cast<double>(prefix_tokens);
  // A smaller limit than min_length would contradict it.
  return std::max(min_length, by_source < max_length ? static_cast<int>(by_source) : max_length);
}

double length_penalty(LengthPenalty form, double alpha, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return std::pow(form == LengthPenalty::gnmt ? (5 + tokens) / 6 : tokens, alpha);
}

double coverage_penalty(double beta, std::span<const float> attended) {
  double sum = 0;
  for (const float weight : attended) {
    // A weight may have been too small for a float: the least of those instead of a logarithm of 0.
    const float least = std::numeric_limits<float>::min();
    sum += std::log(static_cast<double>(std::clamp(weight, least, 1.0f)));
  }
  return beta * sum;
}

void check_prefix(Ids prefix, int64_t vocabulary, int32_t eos, const SearchOptions& options) {
  if (std::ssize(prefix) > options.max_length - 2) {
    throw UsageError(concat("prefix: expected at most ", options.max_length - 2, " tokens, as max_length is ",
                            options.max_length, ", found ", prefix.size()));
  }
  for (const int32_t id : prefix) {
    if (id < 0 || id >= vocabulary) {
      throw UsageError(concat("prefix: expected ids from 0 to ", vocabulary - 1, ", found ", id));
    }
    if (id == eos || std::ranges::count(options.stop, id) > 0) {
      throw UsageError(concat("prefix: expected no token that ends an output, found ", id));
    }
  }
}

}  // namespace qkv::search

#include "qkv/search/constraints.h"

#include <algorithm>
#include <vector>

namespace qkv::search {
namespace {

// A repeated token is penalised once, however often it occurs (Keskar et al. 2019, section 4.1).
void penalize_repetition(std::span<float> scores, std::span<const int32_t> history, float penalty) {
  std::vector<bool> seen(scores.size());
  for (const int32_t id : history) {
    if (id < 0 || id >= std::ssize(scores) || seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    float& score = scores[static_cast<size_t>(id)];
    score = score < 0 ? score * penalty : score / penalty;
  }
}

bool ends_with(std::span<const int32_t> history, std::span<const int32_t> tokens) {
  return history.size() >= tokens.size() && std::ranges::equal(history.last(tokens.size()), tokens);
}

}  // namespace

void forbid(std::span<float> scores, int32_t id) {
  if (id >= 0 && id < std::ssize(scores)) scores[static_cast<size_t>(id)] = kImpossible;
}

void constrain(std::span<float> scores, std::span<const int32_t> history, const SearchOptions& options) {
  if (options.repetition_penalty != 1) penalize_repetition(scores, history, options.repetition_penalty);
  if (const auto n = static_cast<size_t>(options.no_repeat_ngram); n > 0 && history.size() + 1 >= n) {
    const std::span<const int32_t> last = history.last(n - 1);
    for (size_t begin = 0; begin + n <= history.size(); ++begin) {
      if (std::ranges::equal(history.subspan(begin, n - 1), last)) forbid(scores, history[begin + n - 1]);
    }
  }
  for (const int32_t id : options.suppress_tokens) forbid(scores, id);
  for (const std::vector<int32_t>& sequence : options.bad_words) {
    if (ends_with(history, std::span(sequence).first(sequence.size() - 1))) forbid(scores, sequence.back());
  }
}

bool looks_back(const SearchOptions& options) {
  return options.repetition_penalty != 1 || options.no_repeat_ngram > 0 || !options.bad_words.empty();
}

}  // namespace qkv::search

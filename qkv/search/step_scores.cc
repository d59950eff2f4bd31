#include "qkv/search/step_scores.h"

#include <algorithm>
#include <utility>

#include "qkv/base/parallel.h"
#include "qkv/kernels/loss.h"

namespace qkv::search {
namespace {

// A row with its own vocabulary: its logits are gathered contiguously and normalised as if there were no
// others.
void spread(const float* logits, const RowVocabulary& row, int64_t vocabulary, float* log_probabilities,
            float* raw) {
  std::vector<float> own(row.allowed.size());
  for (size_t i = 0; i < own.size(); ++i) own[i] = logits[row.columns[i]];
  const auto put = [&](float* to) {
    std::fill_n(to, vocabulary, kImpossible);
    for (size_t i = 0; i < own.size(); ++i) to[row.allowed[i]] = own[i];
  };
  if (raw != nullptr) put(raw);
  kernels::log_softmax(own.data(), nullptr, own.data(), 1, std::ssize(own));
  put(log_probabilities);
}

}  // namespace

StepScores step_scores(Tensor logits, std::span<const RowVocabulary> rows, int64_t vocabulary,
                       bool wants_logits) {
  const auto any_token = [](const RowVocabulary& row) { return row.allowed.empty(); };
  StepScores result;
  if (std::ranges::all_of(rows, any_token)) {
    if (wants_logits) result.logits = logits.clone();
    kernels::log_softmax(logits.data(), nullptr, logits.data(), logits.rows(), vocabulary);
    result.log_probabilities = std::move(logits);
    return result;
  }
  result.log_probabilities = Tensor::empty({logits.rows(), vocabulary});
  if (wants_logits) result.logits = Tensor::empty({logits.rows(), vocabulary});
  parallel_for(logits.rows(), std::max<int64_t>(1, 32768 / vocabulary), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const RowVocabulary& row = rows[static_cast<size_t>(r)];
      const float* from = logits.data() + r * logits.cols();
      float* to = result.log_probabilities.data() + r * vocabulary;
      float* raw = wants_logits ? result.logits.data() + r * vocabulary : nullptr;
      if (any_token(row)) {
        if (raw != nullptr) std::copy_n(from, vocabulary, raw);
        kernels::log_softmax(from, nullptr, to, 1, vocabulary);
      } else {
        spread(from, row, vocabulary, to, raw);
      }
    }
  });
  return result;
}

}  // namespace qkv::search

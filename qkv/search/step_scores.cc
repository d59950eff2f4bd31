#include "qkv/search/step_scores.h"

#include <algorithm>
#include <utility>

#include "qkv/base/parallel.h"
#include "qkv/kernels/loss.h"

namespace qkv::search {
namespace {

// A row with its own vocabulary: its logits are gathered contiguously and normalised as if there were no
// others.
void spread(const Tensor& logits, const RowVocabulary& row, Tensor& log_probabilities, Tensor& raw) {
  Tensor own = Tensor::empty({1, std::ssize(row.allowed)});
  for (size_t i = 0; i < row.allowed.size(); ++i)
    own.values()[i] = logits.values()[static_cast<size_t>(row.columns[i])];
  const auto put = [&](std::span<float> to) {
    std::ranges::fill(to, kImpossible);
    for (size_t i = 0; i < row.allowed.size(); ++i) to[static_cast<size_t>(row.allowed[i])] = own.values()[i];
  };
  if (raw.defined()) put(raw.values());
  kernels::log_softmax(own, {}, own);
  put(log_probabilities.values());
}

}  // namespace

StepScores step_scores(Tensor logits, std::span<const RowVocabulary> rows, int64_t vocabulary,
                       bool wants_logits) {
  const auto any_token = [](const RowVocabulary& row) { return row.allowed.empty(); };
  StepScores result;
  if (std::ranges::all_of(rows, any_token)) {
    if (wants_logits) result.logits = logits.clone();
    kernels::log_softmax(logits, {}, logits);
    result.log_probabilities = std::move(logits);
    return result;
  }
  result.log_probabilities = Tensor::empty({logits.rows(), vocabulary});
  if (wants_logits) result.logits = Tensor::empty({logits.rows(), vocabulary});
  parallel_for(logits.rows(), std::max<int64_t>(1, 32768 / vocabulary), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const RowVocabulary& row = rows[static_cast<size_t>(r)];
      const Tensor from = logits.slice_rows(r, 1);
      Tensor to = result.log_probabilities.slice_rows(r, 1);
      Tensor raw = wants_logits ? result.logits.slice_rows(r, 1) : Tensor();
      if (any_token(row)) {
        if (raw.defined()) raw.copy_from(from);
        kernels::log_softmax(from, {}, to);
      } else {
        spread(from, row, to, raw);
      }
    }
  });
  return result;
}

}  // namespace qkv::search

#pragma once
// From a step's logits to log-probabilities.

#include <span>

#include "qkv/search/step_model.h"

namespace qkv::search {

// What a row's next token may be.
struct RowVocabulary {
  Ids allowed = {};  // ascending; empty: anything
  Ids columns = {};  // where the logits of those are
};

struct StepScores {
  Tensor log_probabilities;  // [rows, vocabulary]: -infinity for what is not allowed
  Tensor logits;             // likewise, where wanted
};

// logits [rows, columns] may be overwritten. What is not allowed counts for nothing: a row's numbers depend
// on the logits of its own vocabulary alone, bit for bit.
StepScores step_scores(const Tensor& logits, std::span<const RowVocabulary> rows, int64_t vocabulary,
                       bool wants_logits);

}  // namespace qkv::search

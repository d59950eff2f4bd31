#pragma once
// From a step's logits to log-probabilities.

#include <span>

#include "qkv/search/step_model.h"

namespace qkv::search {

// The tokens that may come next in a row.
struct RowVocabulary {
  Ids allowed = {};  // ascending; empty: all
  Ids columns = {};  // the columns of their logits
};

struct StepScores {
  Tensor log_probabilities;  // [rows, vocabulary]: -infinity for tokens that are not allowed
  Tensor logits;             // likewise, where wanted
};

// logits f32 [rows, columns] may be overwritten. A row is normalised over its own vocabulary: its numbers
// depend on those logits alone, bit for bit.
StepScores step_scores(const Tensor& logits, std::span<const RowVocabulary> rows, int64_t vocabulary,
                       bool wants_logits);

}  // namespace qkv::search

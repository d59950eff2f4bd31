#pragma once
// Converts a step's logits to log-probabilities.

#include <span>

#include "qkv/search/step_model.h"

namespace qkv::search {

// The tokens allowed next in a row.
struct RowVocabulary {
  Ids allowed = {};  // ascending; empty: all
  Ids columns = {};  // the columns of their logits
};

struct StepScores {
  Tensor log_probabilities;  // [rows, vocabulary]: -infinity for forbidden tokens
  Tensor logits;             // likewise; only on request
};

// The memory of logits, f32 [rows, columns], may be overwritten. Each row is normalised over its own
// vocabulary: its result depends only on those logits, bit for bit.
StepScores step_scores(Tensor logits, std::span<const RowVocabulary> rows, int64_t vocabulary,
                       bool wants_logits);

}  // namespace qkv::search

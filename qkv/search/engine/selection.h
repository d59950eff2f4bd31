#pragma once
// From a step's logits to the candidates of each row. Not public.

#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "qkv/search/hypotheses.h"
#include "qkv/search/step_scores.h"

namespace qkv::search {

// A row of a running request.
struct RunningRow {
  const Hypotheses& hypotheses;
  int32_t row = 0;
  RowVocabulary vocabulary = {};
};

struct RowResult {
  RowStep step;              // without attention; empty while the prefix is forced
  std::exception_ptr error;  // null: none
};

// logits [rows, vocabulary or columns] may be overwritten. Of logits in a device's memory, only the best
// tokens of each row are copied to the host, if no row needs more.
std::vector<RowResult> select_candidates(Tensor logits, std::span<const RunningRow> rows, int64_t vocabulary);

}  // namespace qkv::search

#include "qkv/models/rows_at.h"

#include <algorithm>

#include "qkv/ops/embedding.h"
#include "qkv/ops/require.h"

namespace qkv::models {

Variable rows_at(const Variable& hidden, int64_t d_model, const Offsets& offsets, int64_t place) {
  require_matrix("rows_at", hidden);
  if (hidden.value().cols() != d_model)
    throw ShapeError(concat("rows_at: expected [tokens, ", d_model, "], found ", hidden.shape()));
  std::vector<int32_t> rows;
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const int64_t row = place == kLastToken ? offsets.length(s) - 1 : place;
    if (row < 0 || offsets.length(s) <= row) {
      throw UsageError(concat("sequence ", s, ": expected at least ", std::max<int64_t>(row, 0) + 1,
                              " tokens, found ", offsets.length(s)));
    }
    rows.push_back(static_cast<int32_t>(offsets.begin(s) + row));
  }
  // embedding() selects rows of a table.
  return embedding(hidden, Tensor::from(rows, {offsets.sequences()}), {}, {});
}

}  // namespace qkv::models

#include "qkv/data/token_rows.h"

#include <limits>

#include "qkv/base/error.h"

namespace qkv::data {

void TokenRows::end_sequence() {
  if (ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw UsageError(concat("tokens in a batch: expected at most 2^31 - 1, found ", ids.size()));
  }
  offsets.push_back(static_cast<int32_t>(ids.size()));
}

Ragged TokenRows::ragged() const { return {Tensor::from(ids, {tokens()}), Offsets(offsets)}; }

}  // namespace qkv::data

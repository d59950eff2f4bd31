#pragma once
// Exact match: the share of hypotheses that equal their reference.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::metrics {

struct ExactMatch {
  int64_t matches = 0, segments = 0;

  double share() const {
    return segments == 0 ? 0 : static_cast<double>(matches) / static_cast<double>(segments);
  }
};

// Counts the hypotheses that equal their reference byte for byte. Throws DataError for an empty corpus or
// unequal numbers of segments.
ExactMatch exact_match(const std::vector<std::string>& hypotheses,
                       const std::vector<std::string>& references);

}  // namespace qkv::metrics

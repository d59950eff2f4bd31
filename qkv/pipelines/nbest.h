#pragma once
// Lists of the best texts, each text once: different ids may have one text.

#include <algorithm>
#include <string_view>
#include <vector>

#include "qkv/search/search.h"

namespace qkv::pipelines {

// The number of hypotheses to request for options.nbest different texts: all of a beam search that returns
// several.
inline int with_spare_hypotheses(const search::SearchOptions& options) {
  const bool beams = options.nbest > 1 && !options.sampling && !options.alternatives;
  return beams ? options.beam : options.nbest;
}

// Whether no result in the list has this text.
template <class Result>
bool is_new_text(const std::vector<Result>& results, std::string_view text) {
  return std::ranges::none_of(results, [&](const Result& one) { return one.text == text; });
}

}  // namespace qkv::pipelines

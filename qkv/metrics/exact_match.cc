#include "qkv/metrics/exact_match.h"

#include "qkv/base/error.h"

namespace qkv::metrics {

ExactMatch exact_match(const std::vector<std::string>& hypotheses,
                       const std::vector<std::string>& references) {
  if (hypotheses.empty() || hypotheses.size() != references.size()) {
    throw DataError(concat("exact match: expected as many hypotheses as references and at least one, found ",
                           hypotheses.size(), " and ", references.size()));
  }
  ExactMatch result{.matches = 0, .segments = static_cast<int64_t>(hypotheses.size())};
  for (size_t i = 0; i < hypotheses.size(); ++i) result.matches += hypotheses[i] == references[i];
  return result;
}

}  // namespace qkv::metrics

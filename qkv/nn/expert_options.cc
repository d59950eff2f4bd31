#include "qkv/nn/expert_options.h"

#include <cmath>

#include "qkv/base/error.h"

namespace qkv::nn {

void ExpertOptions::validate() const {
  if (count < 0 || count > kMaxExperts)
    throw UsageError(concat("experts: expected 0 to ", kMaxExperts, ", found ", count));
  if (count > 0 && (per_token < 1 || per_token > count))
    throw UsageError(concat("experts_per_token: expected 1 to ", count, ", found ", per_token));
  if (!(sparse_mixer >= 0) || (sparse_mixer > 0 && count > 0 && per_token != 2))
    throw UsageError(concat("sparse_mixer: expected 0, or more with 2 experts a token, found ", sparse_mixer,
                            " with ", per_token));
  if (!std::isfinite(scale)) throw UsageError(concat("scale of experts: expected a number, found ", scale));
  if (count > 0 &&
      (groups < 1 || count % groups != 0 || group_choices < 1 || group_choices > groups || group_scores < 1 ||
       (groups > 1 && group_scores > count / groups) || per_token > group_choices * (count / groups)))
    throw UsageError(concat("groups of experts: expected equal groups of ", count,
                            " experts, of which some have ", per_token, ", found ", groups,
                            " groups, of which ", group_choices, " are chosen by the best ", group_scores));
  if (sparse_mixer > 0 && (sigmoid || groups > 1 || correction_bias))
    throw UsageError("sparse_mixer: expected no sigmoid, groups of experts or correction, found one");
  if (shared_d_ff < 0) throw UsageError(concat("shared_d_ff: expected 0 or more, found ", shared_d_ff));
}

}  // namespace qkv::nn

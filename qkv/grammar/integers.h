#pragma once
// The decimal digits of the integers of an interval.

#include <cstdint>

#include "qkv/grammar/grammar.h"

namespace qkv::grammar {

inline constexpr int64_t kMostInteger = 9'999'999'999'999'999;  // of 16 digits

// A new rule: the integers from `least` to `most`, both within +-kMostInteger, without leading zeros; none if
// least > most.
int32_t integers_between(Grammar& grammar, int64_t least, int64_t most);

}  // namespace qkv::grammar

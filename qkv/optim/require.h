#pragma once
// Option checks for the files of this folder.

#include <cmath>
#include <string_view>

#include "qkv/base/error.h"

namespace qkv::optim {

// "sgd: momentum: expected 0 to below 1, found 1.5". NaN and infinity fail every condition.
inline void require_option(std::string_view name, float value, bool holds, std::string_view expected) {
  if (!holds || !std::isfinite(value))
    throw UsageError(concat(name, ": expected ", expected, ", found ", value));
}
inline void require_share(std::string_view name, float value) {
  require_option(name, value, value >= 0 && value < 1, "0 to below 1");
}
inline void require_not_negative(std::string_view name, float value) {
  require_option(name, value, value >= 0, "0 or more");
}

}  // namespace qkv::optim

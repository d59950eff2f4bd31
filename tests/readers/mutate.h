#pragma once

#include <span>
#include <string>

#include "qkv/base/philox.h"

namespace qkv::testing {

// A seed with a few random changes: bits, bytes, numbers and spans that are changed, removed, repeated or
// taken from another seed. Depends on the seeds and the state of `random` alone.
std::string mutated(const std::string& seed, std::span<const std::string> seeds, RandomStream& random);

}  // namespace qkv::testing

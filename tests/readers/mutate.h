#pragma once

#include <span>
#include <string>

#include "qkv/base/philox.h"

namespace qkv::testing {

// A seed with a few random mutations: bits, bytes, numbers and spans that are changed, removed, repeated or
// copied from another seed. A function of the seeds and the state of `random`.
std::string mutated(const std::string& seed, std::span<const std::string> seeds, RandomStream& random);

}  // namespace qkv::testing

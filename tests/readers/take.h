#pragma once

#include <string>

#include "fuzz/reader.h"

namespace qkv::testing {

// Whether the reader took the input. An error of ours refuses it; anything else fails the test, and leaves
// the input in mutation-<reader>. Meanwhile the process may ask for 128 MiB of memory beyond what it has (for
// an image: 1 GiB): where a file invents a size, it has to be refused before memory is asked for.
bool takes(const fuzz::Reader& reader, const std::string& input);

}  // namespace qkv::testing

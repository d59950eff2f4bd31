#pragma once

#include <string>

#include "fuzz/reader.h"

namespace qkv::testing {

// Whether the reader accepts the input. A qkv::Error rejects it; anything else fails the test, and leaves the
// input in mutation-<reader>, as does a second of processor time. The reader may allocate 128 MiB (images: 1
// GiB, GGUF files: 16 MiB): it must reject invalid sizes before allocating.
bool takes(const fuzz::Reader& reader, const std::string& input);

}  // namespace qkv::testing

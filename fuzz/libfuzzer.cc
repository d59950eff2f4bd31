// The libFuzzer entry point for the reader QKV_FUZZ_READER.

#include <cstddef>
#include <cstdint>

#include "fuzz/reader.h"
#include "qkv/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    qkv::fuzz::QKV_FUZZ_READER.read({reinterpret_cast<const char*>(data), size});
  } catch (const qkv::Error&) {
    // Rejected, as expected. Any other exception ends the process.
  }
  return 0;
}

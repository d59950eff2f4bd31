// libFuzzer's entry to the reader QKV_FUZZ_READER.

#include <cstddef>
#include <cstdint>

#include "fuzz/reader.h"
#include "qkv/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    qkv::fuzz::QKV_FUZZ_READER.read({reinterpret_cast<const char*>(data), size});
  } catch (const qkv::Error&) {
    // Refused, as it should be. Anything else ends the process.
  }
  return 0;
}

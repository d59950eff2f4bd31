// libFuzzer's entry points for the reader that the environment variable QKV_READER names.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "fuzz/readers.h"
#include "qkv/base/error.h"

namespace {

const qkv::fuzz::Reader& chosen_reader() {
  const char* name = std::getenv("QKV_READER");
  for (const qkv::fuzz::Reader* reader : qkv::fuzz::readers()) {
    if (name != nullptr && std::string_view(name) == reader->name) return *reader;
  }
  std::cerr << "QKV_READER: expected a reader of fuzz/readers.h, found '" << (name == nullptr ? "" : name)
            << "'\n";
  std::exit(2);
}

}  // namespace

// libsndfile 1.2 does not free it if a Vorbis file's headers are wrong.
extern "C" const char* __lsan_default_suppressions() { return "leak:vorbis_info_init"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const qkv::fuzz::Reader& reader = chosen_reader();
  try {
    reader.read({reinterpret_cast<const char*>(data), size});
  } catch (const qkv::Error&) {
    // Rejected, as expected. Any other exception ends the process.
  }
  return 0;
}

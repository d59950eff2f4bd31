// Reads a safetensors file: the bytes unchanged, and again as a header with its correct length, which random
// mutation rarely finds, followed by as many data bytes as the first byte says.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"

namespace {

using qkv::io::SafetensorsFile;

// Opens bytes as a file in memory, and every tensor in it.
void read_all(std::string_view bytes) {
  const int descriptor = memfd_create("fuzz", 0);
  if (descriptor < 0 || write(descriptor, bytes.data(), bytes.size()) != std::ssize(bytes)) std::abort();
  try {
    const SafetensorsFile file("/proc/self/fd/" + std::to_string(descriptor));
    for (const std::string& name : file.names()) {
      try {
        file.tensor(name);
        file.as_stored(name, file.shape(name));
      } catch (const qkv::Error&) {
        // An unsupported dtype.
      }
    }
  } catch (const qkv::Error&) {
    // Rejected, as expected.
  }
  close(descriptor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_all(bytes);
  const std::string_view header = bytes.substr(1);
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file.append(header).append(data[0], '\x3F');
  read_all(file);
  return 0;
}

#include "tests/readers/take.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <typeinfo>

#include "qkv/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
// A larger allocation aborts.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=1024"; }
// libsndfile 1.2 does not free it if a Vorbis file's headers are wrong.
extern "C" const char* __lsan_default_suppressions() { return "leak:vorbis_info_init"; }
#endif

namespace qkv::testing {
namespace {

// Limits the memory that a reader may allocate: it must reject an invalid size before allocating, or it meets
// this limit. Not used with sanitizers, which need the address space.
class MemoryLimit {
 public:
  explicit MemoryLimit([[maybe_unused]] uint64_t most) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream statm("/proc/self/statm");
    uint64_t pages = 0;
    statm >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + (most);
    setrlimit(RLIMIT_AS, &limit);
#endif
  }
  ~MemoryLimit() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    setrlimit(RLIMIT_AS, &before_);
#endif
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double kMostSeconds = 1;
#else
constexpr double kMostSeconds = 20;
#endif

// An image file of 1 MiB may have kMaxImagePixels; no other file of that length needs as much memory. GGUF
// files are mapped; each of the inputs has less than 64 KiB.
uint64_t most_memory(const fuzz::Reader& reader) {
  const std::string_view name = reader.name;
  return uint64_t{1} << (name == "image" ? 30 : name == "gguf" ? 24 : 27);
}

}  // namespace

bool takes(const fuzz::Reader& reader, const std::string& input) {
  const auto fail = [&](const std::string& message) {
    std::ofstream(std::string("mutation-") + reader.name, std::ios::binary) << input;
    ADD_FAILURE() << reader.name << ": expected " << message << "; the input is in mutation-" << reader.name;
  };
  const MemoryLimit limit(most_memory(reader));
  const std::clock_t before = std::clock();
  bool taken = false;
  try {
    reader.read(input);
    taken = true;
  } catch (const Error&) {
    // Rejected, as expected.
  } catch (const std::exception& error) {
    fail(concat("an error of ours, found ", typeid(error).name(), ": ", error.what()));
  }
  // Of this process, so that others do not matter.
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  if (seconds > kMostSeconds) fail(concat("an answer within ", kMostSeconds, " s, found ", seconds));
  return taken;
}

}  // namespace qkv::testing

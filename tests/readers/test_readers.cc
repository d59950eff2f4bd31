// Every reader of what comes from elsewhere (fuzz/reader.h) meets mutated files: it refuses them with an
// error of ours, or what it reads works. The same mutations each time; QKV_MUTATIONS=100000 runs more of
// them, and the input that ends the process is left in mutation-<reader>.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <typeinfo>

#include "fuzz/readers.h"
#include "qkv/base/error.h"
#include "tests/readers/mutate.h"

#if defined(__SANITIZE_ADDRESS__)
// A larger allocation ends the process.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=1024"; }
#endif

namespace {

using namespace qkv;

// What a reader may ask for beyond what the process has: a size that a file invents is refused before memory
// is asked for, or this limit is met. Sanitizers need the address space for themselves.
class MemoryLimit {
 public:
  MemoryLimit() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream statm("/proc/self/statm");
    uint64_t pages = 0;
    statm >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + (uint64_t{1} << 30);
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

// Whether the reader took the input; an error of ours is an answer, and anything else fails the test.
bool takes(const fuzz::Reader& reader, const std::string& input) {
  const MemoryLimit limit;
  try {
    reader.read(input);
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::exception& error) {
    std::ofstream(std::string("mutation-") + reader.name, std::ios::binary) << input;
    ADD_FAILURE() << reader.name << ": expected an error of ours, found " << typeid(error).name() << ": "
                  << error.what() << "; the input is in mutation-" << reader.name;
    return false;
  }
}

// Some readers take a millisecond and others a microsecond.
int mutations(const fuzz::Reader& reader) {
  if (const char* wanted = std::getenv("QKV_MUTATIONS")) return std::atoi(wanted);
  const std::string_view name = reader.name;
  return name == "model_folder" || name == "checkpoint" ? 1000 : 3000;
}

class Readers : public ::testing::TestWithParam<const fuzz::Reader*> {};

TEST_P(Readers, TakeWellFormedInputs) {
  const fuzz::Reader& reader = *GetParam();
  const std::vector<std::string> seeds = reader.seeds();
  ASSERT_FALSE(seeds.empty());
  int taken = 0;
  for (const std::string& seed : seeds) taken += takes(reader, seed);
  EXPECT_GT(taken, 0);
}

TEST_P(Readers, RefuseMutatedInputsOrWork) {
  const fuzz::Reader& reader = *GetParam();
  const std::vector<std::string> seeds = reader.seeds();
  ASSERT_FALSE(seeds.empty());
  const bool campaign = std::getenv("QKV_MUTATIONS") != nullptr;
  RandomStream random(/*seed=*/1);
  const int count = mutations(reader);
  int taken = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const std::string input = qkv::testing::mutated(seeds[random.below(seeds.size())], seeds, random);
    if (input.size() > fuzz::kMaxInput) continue;
    if (campaign) std::ofstream(std::string("mutation-") + reader.name, std::ios::binary) << input;
    taken += takes(reader, input);
  }
  if (campaign && !HasFailure()) std::remove((std::string("mutation-") + reader.name).c_str());
  std::cout << reader.name << ": " << taken << " of " << count << " mutated inputs were taken\n";
  // Mutations that are all refused at once would test little.
  EXPECT_LT(taken, count);
}

INSTANTIATE_TEST_SUITE_P(All, Readers, ::testing::ValuesIn(fuzz::readers().begin(), fuzz::readers().end()),
                         [](const ::testing::TestParamInfo<const fuzz::Reader*>& parameter) {
                           return std::string(parameter.param->name);
                         });

}  // namespace

// Feeds mutated files to every reader of untrusted data (fuzz/reader.h): it must reject them with a
// qkv::Error, or return a usable result. The mutations are deterministic; QKV_MUTATIONS=100000 runs more of
// them, and the input of a crash is left in mutation-<reader>.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "fuzz/readers.h"
#include "tests/readers/mutate.h"
#include "tests/readers/take.h"

namespace {

using namespace qkv;
using qkv::testing::takes;

// The current input of a campaign, in mutation-<reader>, which remains there after a crash.
class CurrentInput {
 public:
  explicit CurrentInput(const std::string& reader)
      : path_("mutation-" + reader),
        file_(::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644)) {}
  ~CurrentInput() {
    ::close(file_);
    if (!::testing::Test::HasFailure()) std::remove(path_.c_str());
  }
  CurrentInput(const CurrentInput&) = delete;
  CurrentInput& operator=(const CurrentInput&) = delete;

  // The file stays open, because closing it thousands of times per second would wait for the disk.
  void set(const std::string& input) const {
    const auto size = static_cast<ssize_t>(input.size());
    EXPECT_EQ(::pwrite(file_, input.data(), input.size(), 0), size) << path_;
    EXPECT_EQ(::ftruncate(file_, size), 0) << path_;
  }

 private:
  std::string path_;
  int file_;
};

// Some readers take a millisecond and others a microsecond.
int mutations(const fuzz::Reader& reader) {
  if (const char* wanted = std::getenv("QKV_MUTATIONS")) return std::atoi(wanted);
  const std::string_view name = reader.name;
  if (name == "proof") return 100;
  return name == "model_folder" || name == "checkpoint" || name == "command_line" ? 1000 : 3000;
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
  std::optional<CurrentInput> current;
  if (std::getenv("QKV_MUTATIONS") != nullptr) current.emplace(reader.name);
  RandomStream random(/*seed=*/1);
  const int count = mutations(reader);
  int taken = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const std::string input = qkv::testing::mutated(seeds[random.below(seeds.size())], seeds, random);
    if (input.size() > fuzz::kMaxInput) continue;
    if (current) current->set(input);
    taken += takes(reader, input);
  }
  std::cout << reader.name << ": " << taken << " of " << count << " mutated inputs were taken\n";
  // If all mutations were rejected immediately, little would be tested.
  EXPECT_LT(taken, count);
}

INSTANTIATE_TEST_SUITE_P(All, Readers, ::testing::ValuesIn(fuzz::readers().begin(), fuzz::readers().end()),
                         [](const ::testing::TestParamInfo<const fuzz::Reader*>& parameter) {
                           return std::string(parameter.param->name);
                         });

}  // namespace

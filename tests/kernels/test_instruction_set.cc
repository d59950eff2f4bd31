#include "qkv/kernels/instruction_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace qkv::kernels {
namespace {

// The tests call CPU kernels directly, so QKV_ISA must be read before.
class Limit : public testing::Environment {
  void SetUp() override { instruction_set(); }
};
const testing::Environment* const limit = testing::AddGlobalTestEnvironment(new Limit);

TEST(InstructionSet, IsTheRequestedOneOrTheBest) {
  const auto& sets = instruction_sets();
  ASSERT_FALSE(sets.empty());
  EXPECT_TRUE(std::ranges::is_sorted(sets));
  const char* const asked = std::getenv("QKV_ISA");
  EXPECT_STREQ(name_of(instruction_set()), asked != nullptr ? asked : name_of(sets.back()));
}

}  // namespace
}  // namespace qkv::kernels

#include <gtest/gtest.h>

#include <iostream>

#include "tests/support/misuse.h"

namespace {

// For docs/reliability.md.
class Count : public ::testing::Environment {
 public:
  void TearDown() override { std::cout << "calls with unfit arguments: " << qkv::testing::misuses << '\n'; }
};

[[maybe_unused]] const auto* const count = ::testing::AddGlobalTestEnvironment(new Count);

}  // namespace

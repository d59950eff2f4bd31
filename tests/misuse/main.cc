#include <gtest/gtest.h>

#include <iostream>

#include "tests/support/misuse.h"

namespace {

// Prints the number of calls.
class Count : public ::testing::Environment {
 public:
  void TearDown() override { std::cout << "calls with invalid arguments: " << qkv::testing::misuses << '\n'; }
};

[[maybe_unused]] const auto* const count = ::testing::AddGlobalTestEnvironment(new Count);

}  // namespace

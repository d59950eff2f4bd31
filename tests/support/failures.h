#pragma once
// For tests of checks: the failures of assertions that a call makes, which do not fail the calling test.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace qkv::testing {

template <class Call>
int failures_in(const Call& call) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    call();
  }
  int failures = 0;
  for (int i = 0; i < results.size(); ++i) failures += results.GetTestPartResult(i).failed() ? 1 : 0;
  return failures;
}

}  // namespace qkv::testing

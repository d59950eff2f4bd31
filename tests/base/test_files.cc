#include "qkv/base/files.h"

#include <gtest/gtest.h>

#include <optional>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace qkv {
namespace {

using testing::Scratch;

TEST(FolderLock, HoldsAFolderUntilItGoes) {
  const Scratch one, other;
  std::optional<FolderLock> lock(one.path());
  try {
    const FolderLock second(one.path());
    FAIL() << "the folder was held twice";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(one.path().string()), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(FolderLock(other.path()));
  lock.reset();
  EXPECT_NO_THROW(FolderLock(one.path()));
  EXPECT_THROW(FolderLock(one.path() / "missing"), IoError);
}

}  // namespace
}  // namespace qkv

#include "qkv/base/counted.h"

#include <gtest/gtest.h>

namespace {

TEST(Counted, OneThingIsSingular) {
  EXPECT_EQ(qkv::counted(1, "documents"), "1 document");
  EXPECT_EQ(qkv::counted(1, "batches"), "1 batch");
  EXPECT_EQ(qkv::counted(1, "classes"), "1 class");
  EXPECT_EQ(qkv::counted(0, "tagged words"), "0 tagged words");
  EXPECT_EQ(qkv::counted(2000, "texts"), "2000 texts");
}

}  // namespace

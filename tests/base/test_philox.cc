#include <gtest/gtest.h>

#include "qkv/base/philox.h"

namespace {

// Known answers of the authors' Random123 library (kat_vectors, philox4x32 10 rounds).
TEST(Philox, KnownAnswers) {
  const qkv::PhiloxCounter zero{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  EXPECT_EQ(qkv::philox4x32(0, {0, 0, 0, 0}), zero);
  const qkv::PhiloxCounter ones{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu};
  EXPECT_EQ(qkv::philox4x32(~uint64_t{0}, {~0u, ~0u, ~0u, ~0u}), ones);
  const qkv::PhiloxCounter pi{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u};
  EXPECT_EQ(qkv::philox4x32(0x299f31d0a4093822u, {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}), pi);
}

TEST(RandomStream, DependsOnSeedStreamAndPositionOnly) {
  qkv::RandomStream a(7, 1), b(7, 1), c(7, 2);
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const uint32_t number = a.next();
    EXPECT_EQ(number, b.next());
    different += number != c.next();
  }
  EXPECT_GT(different, 95);
}

TEST(RandomStream, BelowCoversItsRange) {
  qkv::RandomStream random(3);
  int seen[7] = {};
  for (int i = 0; i < 7000; ++i) {
    const uint64_t n = random.below(7);
    ASSERT_LT(n, 7u);
    ++seen[n];
  }
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace

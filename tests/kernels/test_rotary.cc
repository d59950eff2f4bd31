#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include "qkv/kernels/reference/rotary.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

// Rows of several heads within a wider matrix, at positions in random order.
struct Case {
  Case(int64_t rows_in, int64_t heads_in, int64_t d_in, int64_t unrotated = 0)
      : rows(rows_in),
        heads(heads_in),
        d(d_in),
        rotated(d - unrotated),
        x(rows * stride(), 1),
        cosines(kPlaces * rotated / 2, 2),
        sines(kPlaces * rotated / 2, 3) {
    for (int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<int32_t>((5 * r + 3) % kPlaces));
  }
  int64_t stride() const { return heads * d + 7; }
  Rotary arguments(float* y, int64_t y_stride) const {
    return {.x = x.data(),
            .x_stride = stride(),
            .y = y,
            .y_stride = y_stride,
            .rows = rows,
            .heads = heads,
            .d = d,
            .rotated = rotated,
            .cosines = cosines.data(),
            .sines = sines.data(),
            .positions = positions.data()};
  }

  static constexpr int64_t kPlaces = 11;
  int64_t rows, heads, d, rotated;
  Numbers x, cosines, sines;
  std::vector<int32_t> positions;
};

TEST(Rotary, MatchesTheReferenceForEveryWidth) {
  for_each_target([] {
    for (int64_t d = 2; d <= 70; d += 2) {
      const Case one(4, 3, d, d > 9 ? d % 9 / 2 * 2 : 0);
      for (const Turn direction : {Turn::forward, Turn::back}) {
        for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
          Numbers y(one.rows * one.heads * d, 4);
          Rotary arguments = one.arguments(y.data(), one.heads * d);
          arguments.direction = direction;
          arguments.accumulate = accumulate;
          const auto expected = reference::rotated(arguments);
          cpu::rotary(arguments);
          expect_near(y, expected, 3e-7, 3e-7, accumulate, "d " + std::to_string(d));
        }
      }
    }
  });
}

TEST(Rotary, InPlaceAndInverse) {
  const Case one(3, 2, 45, 7);
  Numbers angles = one.cosines, x = one.x, cosines = one.cosines, sines = one.sines;
  for (int64_t i = 0; i < angles.size(); ++i) {
    cosines[i] = std::cos(angles[i]);
    sines[i] = std::sin(angles[i]);
  }
  Rotary arguments = one.arguments(x.data(), one.stride());
  arguments.x = x.data();
  arguments.cosines = cosines.data();
  arguments.sines = sines.data();
  cpu::rotary(arguments);
  EXPECT_FALSE(x.same_bits(one.x));
  arguments.direction = Turn::back;
  cpu::rotary(arguments);
  std::vector<double> expected;
  for (int64_t i = 0; i < one.x.size(); ++i) expected.push_back(double{one.x[i]});
  expect_near(x, expected, 5e-7, 0, Accumulate::no, "there and back");
}

TEST(Rotary, RowsAreIndependentAndThreadInvariant) {
  const Case one(300, 2, 120);
  const auto run = [&](int64_t first, int64_t count) {
    Numbers y(count * 240, 5);
    Rotary arguments = one.arguments(y.data(), 240);
    arguments.x = arguments.x + first * one.stride();
    arguments.positions += first;
    arguments.rows = count;
    cpu::rotary(arguments);
    return y;
  };
  expect_same_for_any_threads([&] { return run(0, 300); });
  const Numbers all = run(0, 300), alone = run(217, 1);
  EXPECT_EQ(std::memcmp(alone.data(), all.data() + 217 * 240, 240 * 4), 0);
}

}  // namespace
}  // namespace qkv::kernels

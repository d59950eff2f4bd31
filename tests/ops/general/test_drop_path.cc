// Stochastic depth: whole sequences are dropped.

#include "qkv/ops/general/drop_path.h"

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "tests/ops/gradient_check.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

constexpr Dropout kHalf{.rate = 0.5f, .seed = 11, .step = 2, .site = 5};
const Offsets kOffsets({0, 3, 3, 4, 9, 11, 12});

TEST(DropPath, Gradients) {
  check_gradients({.function = [](const auto& in) { return drop_path(in[0], kOffsets, kHalf); },
                   .inputs = {random_tensor({12, 5}, 1)}});
}

TEST(DropPath, DropsOrScalesWholeSequencesByTheirIndexInTheBatch) {
  const Tensor x = random_tensor({12, 5}, 1);
  const Dropout dropout{.rate = 0.25f, .seed = 3, .step = 1, .site = 2};
  const Tensor y = drop_path(x, kOffsets, dropout).value();
  int dropped = 0;
  for (int64_t s = 0; s < kOffsets.sequences(); ++s) {
    const bool kept = dropout.keeps(static_cast<uint32_t>(s), 0);
    dropped += kept ? 0 : 1;
    for (int64_t i = kOffsets.begin(s) * 5; i < kOffsets.end(s) * 5; ++i)
      EXPECT_EQ(y.data()[i], kept ? x.data()[i] * (4.0f / 3) : 0) << "sequence " << s;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, kOffsets.sequences());
  // The last three sequences by themselves.
  Dropout part = dropout;
  part.first_row = 3;
  const Tensor last = drop_path(x.slice_rows(4, 8), Offsets({0, 5, 7, 8}), part).value();
  EXPECT_TRUE(std::ranges::equal(last.values(), y.slice_rows(4, 8).values()));
}

TEST(DropPath, KeepsTheExpectedValue) {
  constexpr int64_t kSequences = 20000;
  for (const float rate : {0.1f, 0.7f}) {
    const Tensor y = drop_path(Tensor::full({kSequences, 1}, 1), Offsets::uniform(kSequences, 1),
                               {.rate = rate, .seed = 5, .step = 1, .site = 0})
                         .value();
    double sum = 0, zeros = 0;
    for (const float value : y.values()) {
      sum += value;
      zeros += value == 0 ? 1 : 0;
    }
    // Four standard deviations.
    EXPECT_NEAR(zeros / kSequences, rate, 4 * std::sqrt(rate * (1 - rate) / kSequences));
    EXPECT_NEAR(sum / kSequences, 1, 4 * std::sqrt(rate / (1 - rate) / kSequences));
  }
}

TEST(DropPath, RejectsMismatchedOffsetsAndRatesOfOneOrMore) {
  const Variable x = random_tensor({12, 5}, 1);
  EXPECT_EQ(message_of<ShapeError>([&] {
              drop_path(x, Offsets({0, 4}), kHalf);
            }),
            "drop_path: expected offsets of the 12 rows of x, found 4");
  for (const float rate : {1.0f, -0.5f}) EXPECT_THROW(drop_path(x, kOffsets, {.rate = rate}), UsageError);
}

}  // namespace

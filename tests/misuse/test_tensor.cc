// Shape, Tensor, Offsets and Ragged.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/tensor/ragged.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

TEST(MisusedTensor, Shapes) {
  for (const int64_t extent : {int64_t{-1}, kLowest, kHuge, int64_t{1} << 60}) {
    THROWS("shape", Shape({2, extent}));
    THROWS("shape", Tensor::empty({extent}));
    THROWS("shape", Tensor::zeros({0, extent}));
    THROWS("shape", Tensor::full({extent, 3}, 1));
  }
  THROWS("shape", Shape({int64_t{1} << 30, int64_t{1} << 30}));
  THROWS("shape", Shape({1, 1, 1, 1, 1, 1}));
  for (const int axis : {2, -3, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    THROWS("axis", Shape({2, 3})[axis]);
    THROWS("axis", random_tensor({2, 3}, 1).dim(axis));
    THROWS("axis", random_tensor({2, 3}, 1).slice(axis, 0, 1));
  }
}

TEST(MisusedTensor, Values) {
  const std::vector<float> six(6, 1.0f);
  THROWS("Tensor::from", Tensor::from(six, {7}));
  THROWS("Tensor::from", Tensor::from(six, {2, 2}));
  THROWS("Tensor::from", Tensor::from(six, {}));
  THROWS("Tensor::wrap", Tensor::wrap(nullptr, {3}, DType::f32));
  const Tensor x = random_tensor({2, 3}, 1), columns = strided(x);
  THROWS("[2, 3]", columns.values().size());
  THROWS("item", x.item());
  THROWS("item", Tensor().item());
  THROWS("i32", Tensor::zeros({1}, DType::i32).item());
  THROWS("i32", x.data<int32_t>());
  THROWS("u8", x.values<uint8_t>().size());
  THROWS("at(", x.at(0));
  THROWS("at(", x.at(0, 0, 0));
  for (const int64_t index : {int64_t{3}, int64_t{-4}, kHuge, kLowest}) {
    THROWS("at(", x.at(0, index));
    THROWS("at(", x.at(index, 0));
    THROWS("at(", Tensor().at(index));
  }
  EXPECT_EQ(Tensor().values().size(), 0u);
}

TEST(MisusedTensor, Views) {
  const Tensor x = random_tensor({4, 3}, 1), none;
  for (const auto& [begin, count] : {std::pair{int64_t{-1}, int64_t{1}},
                                     {0, 5},
                                     {5, 0},
                                     {1, kHuge},
                                     {kHuge, 1},
                                     {kHuge, kHuge},
                                     {kLowest, 1},
                                     {0, -1},
                                     {1, kLowest}}) {
    const std::string what = concat(begin, " and ", count);
    THROWS("slice_rows", x.slice_rows(begin, count)) << what;
    THROWS("columns", x.columns(begin, count)) << what;
    THROWS("slice", x.slice(0, begin, count)) << what;
    THROWS("", none.slice_rows(begin, count)) << what;
    THROWS("", none.columns(begin, count)) << what;
    THROWS("", none.slice(0, begin, count)) << what;
  }
  for (const Shape& shape : {Shape{}, Shape{13}, Shape{0}, Shape{4, 4}, Shape{int64_t{1} << 59}}) {
    THROWS("reshape", x.reshape(shape));
    THROWS("reshape", none.reshape(shape));
  }
  THROWS("reshape", strided(x).reshape({12}));
  RETURNS(Tensor::zeros({0, 3}), x.slice_rows(4, 0));
  RETURNS(Tensor::zeros({4, 0}), x.columns(3, 0).clone());
  RETURNS(x, strided(x).clone());
  RETURNS(x.slice(0, 1, 2), strided(x).slice_rows(1, 2).clone());
}

TEST(MisusedTensor, Copies) {
  const Tensor x = random_tensor({3, 4}, 1);
  for (const Unfit& from : unfit_variants(x, {})) {
    Tensor to = Tensor::zeros({3, 4});
    THROWS("copy_from", to.copy_from(from.tensor)) << from.what;
  }
  Tensor scalar = Tensor::full({}, 7), none;
  THROWS("copy_from", scalar.copy_from({}));
  THROWS("copy_from", none.copy_from(scalar));
  none.fill_zero();
  EXPECT_FALSE(none.clone().defined());
  // From and to overlapping memory.
  const auto shifted = [&](const Shape& shape, const auto& from, const auto& to) {
    Tensor whole = random_tensor(shape, 3);
    const Tensor expected = from(whole).clone();
    RETURNS(expected, [&] {
      to(whole).copy_from(from(whole));
      return to(whole).clone();
    }());
  };
  for (const int64_t at : {0, 1, 2}) {
    shifted(
        {6, 4}, [&](Tensor& t) { return t.slice_rows(1, 4); },
        [&](Tensor& t) { return t.slice_rows(at, 4); });
    shifted(
        {6, 4}, [&](Tensor& t) { return t.columns(1, 2); }, [&](Tensor& t) { return t.columns(at, 2); });
    shifted(
        {6, 4}, [&](Tensor& t) { return t.columns(at, 2).slice_rows(2, 3); },
        [&](Tensor& t) { return t.columns(1, 2).slice_rows(at, 3); });
  }
}

TEST(MisusedTensor, MovedFrom) {
  Tensor x = random_tensor({3, 4}, 1);
  const Tensor kept = x, taken = std::move(x);
  EXPECT_TRUE(same_elements(taken, kept));
  EXPECT_FALSE(x.defined());         // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(x.shape(), Shape{});     // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(x.dtype(), DType::f32);  // NOLINT(bugprone-use-after-move)
  Tensor y = random_tensor({2}, 2);
  y = std::move(y);  // NOLINT
  y = Tensor(kept);
  EXPECT_TRUE(same_elements(y, kept));
  x = taken;
  EXPECT_TRUE(same_elements(x, kept));
  Offsets offsets({0, 2, 5});
  const Offsets others = std::move(offsets);
  EXPECT_EQ(offsets, others);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(offsets.sequences(), 2);
}

TEST(MisusedTensor, Offsets) {
  using Numbers = std::vector<int32_t>;
  for (const Numbers& numbers :
       {Numbers{}, Numbers{1}, Numbers{-1, 2}, Numbers{0, 3, 2}, Numbers{0, -1}, Numbers{0, INT32_MIN}})
    THROWS("offsets", Offsets{numbers});
  for (const Numbers& lengths : {Numbers{-1}, Numbers{INT32_MAX, 1}, Numbers{3, INT32_MIN}})
    THROWS("offsets", Offsets::of_lengths(lengths));
  for (const auto& [batch, length] : {std::pair{int64_t{-1}, int64_t{1}},
                                      {1, -1},
                                      {kHuge, 1},
                                      {1, kHuge},
                                      {kHuge, kHuge},
                                      {65536, 65536},
                                      {kLowest, kLowest}})
    THROWS("offsets", Offsets::uniform(batch, length));
  const Offsets offsets({0, 2, 5});
  for (const int64_t sequence : {int64_t{-1}, int64_t{2}, int64_t{3}, kHuge, kLowest}) {
    THROWS("offsets", offsets.end(sequence));
    THROWS("offsets", offsets.length(sequence));
    if (sequence != 2) {
      THROWS("offsets", offsets.begin(sequence));
    }
  }
  EXPECT_EQ(offsets.begin(2), 5);
  EXPECT_EQ(Ragged::from<int32_t>({}).values.shape(), Shape{0});
  EXPECT_EQ(Ragged::from<float>({{}, {1, 2}, {}}).offsets, Offsets({0, 0, 2, 2}));
}

}  // namespace

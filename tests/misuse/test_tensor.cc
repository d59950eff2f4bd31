// Shape, Tensor, Offsets and Ragged.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/tensor/ragged.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max(), kLowest = std::numeric_limits<int64_t>::min();

TEST(MisusedTensor, Shapes) {
  for (const int64_t extent : {int64_t{-1}, kLowest, kHuge, int64_t{1} << 60}) {
    expect_refusal("shape", "extent", [&] { Shape({2, extent}); });
    expect_refusal("shape", "empty", [&] { Tensor::empty({extent}); });
    expect_refusal("shape", "zeros", [&] { Tensor::zeros({0, extent}); });
    expect_refusal("shape", "full", [&] { Tensor::full({extent, 3}, 1); });
  }
  expect_refusal("shape", "2^60 elements", [] { Shape({int64_t{1} << 30, int64_t{1} << 30}); });
  expect_refusal("shape", "six axes", [] { Shape({1, 1, 1, 1, 1, 1}); });
  for (const int axis : {2, -3, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    expect_refusal("axis", "shape", [&] { Shape({2, 3})[axis]; });
    expect_refusal("axis", "dim", [&] { return random_tensor({2, 3}, 1).dim(axis); });
    expect_refusal("axis", "slice", [&] { return random_tensor({2, 3}, 1).slice(axis, 0, 1); });
  }
}

TEST(MisusedTensor, Values) {
  const std::vector<float> six(6, 1.0f);
  expect_refusal("Tensor::from", "too few", [&] { Tensor::from(six, {7}); });
  expect_refusal("Tensor::from", "too many", [&] { Tensor::from(six, {2, 2}); });
  expect_refusal("Tensor::from", "a scalar", [&] { Tensor::from(six, {}); });
  expect_refusal("Tensor::wrap", "no memory", [] { Tensor::wrap(nullptr, {3}, DType::f32); });
  const Tensor x = random_tensor({2, 3}, 1), columns = strided(x);
  expect_refusal("[2, 3]", "values of columns", [&] { return columns.values().size(); });
  expect_refusal("item", "six", [&] { return x.item(); });
  expect_refusal("item", "none", [&] { return Tensor().item(); });
  expect_refusal("i32", "item", [] { return Tensor::zeros({1}, DType::i32).item(); });
  expect_refusal("i32", "data", [&] { return x.data<int32_t>(); });
  expect_refusal("u8", "values", [&] { return x.values<uint8_t>().size(); });
  expect_refusal("at(", "too few indices", [&] { return x.at(0); });
  expect_refusal("at(", "too many indices", [&] { return x.at(0, 0, 0); });
  for (const int64_t index : {int64_t{3}, int64_t{-4}, kHuge, kLowest}) {
    expect_refusal("at(", "column", [&] { return x.at(0, index); });
    expect_refusal("at(", "row", [&] { return x.at(index, 0); });
    expect_refusal("at(", "an undefined tensor", [&] { return Tensor().at(index); });
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
    expect_refusal("slice_rows", what, [&] { return x.slice_rows(begin, count); });
    expect_refusal("columns", what, [&] { return x.columns(begin, count); });
    expect_refusal("slice", what, [&] { return x.slice(0, begin, count); });
    expect_refusal("", what, [&] { return none.slice_rows(begin, count); });
    expect_refusal("", what, [&] { return none.columns(begin, count); });
    expect_refusal("", what, [&] { return none.slice(0, begin, count); });
  }
  for (const Shape& shape : {Shape{}, Shape{13}, Shape{0}, Shape{4, 4}, Shape{int64_t{1} << 59}}) {
    expect_refusal("reshape", "another number", [&] { return x.reshape(shape); });
    expect_refusal("reshape", "undefined", [&] { return none.reshape(shape); });
  }
  expect_refusal("reshape", "columns", [&] { return strided(x).reshape({12}); });
  expect_refusal_or(Tensor::zeros({0, 3}), "no rows", [&] { return x.slice_rows(4, 0); });
  expect_refusal_or(Tensor::zeros({4, 0}), "no columns", [&] { return x.columns(3, 0).clone(); });
  expect_refusal_or(x, "columns", [&] { return strided(x).clone(); });
  expect_refusal_or(x.slice(0, 1, 2), "rows of columns", [&] { return strided(x).slice_rows(1, 2).clone(); });
}

TEST(MisusedTensor, Copies) {
  const Tensor x = random_tensor({3, 4}, 1);
  for (const auto& unfit : {unfit_elements(x, {}), unfit_shapes(x, {})}) {
    for (const Unfit& from : unfit) {
      Tensor to = Tensor::zeros({3, 4});
      expect_refusal("copy_from", from.what, [&] { to.copy_from(from.tensor); });
    }
  }
  Tensor scalar = Tensor::full({}, 7), none;
  expect_refusal("copy_from", "to a scalar", [&] { scalar.copy_from({}); });
  expect_refusal("copy_from", "to nothing", [&] { none.copy_from(scalar); });
  none.fill_zero();
  EXPECT_FALSE(none.clone().defined());
  // From and to overlapping memory.
  const auto shifted = [&](const Shape& shape, const auto& from, const auto& to) {
    Tensor whole = random_tensor(shape, 3);
    const Tensor expected = from(whole).clone();
    expect_refusal_or(expected, "overlapping", [&] {
      to(whole).copy_from(from(whole));
      return to(whole).clone();
    });
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
    expect_refusal("offsets", "numbers", [&] { Offsets{numbers}; });
  for (const Numbers& lengths : {Numbers{-1}, Numbers{INT32_MAX, 1}, Numbers{3, INT32_MIN}})
    expect_refusal("offsets", "lengths", [&] { Offsets::of_lengths(lengths); });
  for (const auto& [batch, length] : {std::pair{int64_t{-1}, int64_t{1}},
                                      {1, -1},
                                      {kHuge, 1},
                                      {1, kHuge},
                                      {kHuge, kHuge},
                                      {65536, 65536},
                                      {kLowest, kLowest}})
    expect_refusal("offsets", "uniform", [&] { Offsets::uniform(batch, length); });
  const Offsets offsets({0, 2, 5});
  for (const int64_t sequence : {int64_t{-1}, int64_t{2}, int64_t{3}, kHuge, kLowest}) {
    expect_refusal("offsets", "end", [&] { return offsets.end(sequence); });
    expect_refusal("offsets", "length", [&] { return offsets.length(sequence); });
    if (sequence != 2) expect_refusal("offsets", "begin", [&] { return offsets.begin(sequence); });
  }
  EXPECT_EQ(offsets.begin(2), 5);
  EXPECT_EQ(Ragged::from<int32_t>({}).values.shape(), Shape{0});
  EXPECT_EQ(Ragged::from<float>({{}, {1, 2}, {}}).offsets, Offsets({0, 0, 2, 2}));
}

}  // namespace

#include "qkv/tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <type_traits>
#include <utility>

#include "qkv/tensor/half.h"
#include "qkv/tensor/ragged.h"
#include "tests/support/random_blocks.h"
#include "tests/support/scratch.h"

namespace {

using qkv::testing::message_of;

using namespace qkv;

template <class T>
concept HasTensors = requires(const std::vector<T>& values) {
  Tensor::from(values, Shape{1});
};
static_assert(HasTensors<float> && HasTensors<int32_t> && HasTensors<uint8_t> && HasTensors<int8_t> &&
              HasTensors<BFloat16> && HasTensors<Float16> && HasTensors<int64_t>);
static_assert(!HasTensors<double> && !HasTensors<uint64_t> && !HasTensors<uint16_t> && !HasTensors<bool>);

// A const tensor is read-only: so are its elements and its views.
template <class T>
concept Writable = requires(T& tensor, const Tensor& other) {
  tensor.copy_from(other);
  tensor.fill_zero();
  tensor.at(0) = 1.0f;
  tensor.data()[0] = 1.0f;
  tensor.values()[0] = 1.0f;
  tensor.reshape(Shape{1}).fill_zero();
  tensor.slice_rows(0, 1).fill_zero();
  tensor.columns(0, 1).fill_zero();
};
static_assert(Writable<Tensor>);
template <class T>
concept WritableInSomeWay = requires(T& tensor, const Tensor& other) {
  tensor.copy_from(other);
}
|| requires(T& tensor) { tensor.fill_zero(); }
|| requires(T& tensor) { tensor.at(0) = 1.0f; }
|| requires(T& tensor) { tensor.data()[0] = 1.0f; }
|| requires(T& tensor) { tensor.values()[0] = 1.0f; }
|| requires(T& tensor) { tensor.reshape(Shape{1}).fill_zero(); }
|| requires(T& tensor) { tensor.slice_rows(0, 1).fill_zero(); }
|| requires(T& tensor) { tensor.columns(0, 1).fill_zero(); };
static_assert(WritableInSomeWay<Tensor> && !WritableInSomeWay<const Tensor>);
static_assert(std::same_as<decltype(std::declval<const Tensor&>().data()), const float*>);
// A device address cannot be dereferenced or turned into a pointer.
static_assert(
    std::same_as<decltype(std::declval<const Tensor&>().device_data()), DeviceAddress<const float>>);
template <class T>
concept Readable = requires(T address) {
  *address;
}
|| requires(T address) { address[0]; }
|| requires(T address) { static_cast<const void*>(address); };
static_assert(Readable<float*> && !Readable<DeviceAddress<float>> && !Readable<DeviceAddress<const float>>);
static_assert(
    std::same_as<decltype(std::declval<const Tensor&>().values<int32_t>()), std::span<const int32_t>>);
static_assert(std::same_as<decltype(std::declval<const Ragged&>().values.data()), const float*>);

// 0, 1, 2, ...
Tensor counted(const Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.values()[static_cast<size_t>(i)] = static_cast<float>(i);
  return tensor;
}

template <class T>
std::string printed(const T& tensor) {
  std::ostringstream out;
  out << tensor;
  return out.str();
}

TEST(Shape, RejectsInvalidSizes) {
  EXPECT_EQ(message_of<ShapeError>([] { Shape({2, -1}); }), "shape: extent 1 is negative: -1");
  EXPECT_EQ(message_of<ShapeError>([] {
              Shape({1, 1, 1, 1, 1, 1});
            }),
            "shape: expected at most 5 extents, found 6");
  constexpr int64_t kLarge = int64_t{1} << 31;
  EXPECT_EQ(message_of<ShapeError>([] {
              Shape({kLarge, kLarge});
            }),
            "shape: expected fewer than 2^60 elements, found [2147483648, 2147483648]");
  EXPECT_THROW(Shape({std::numeric_limits<int64_t>::max()}), ShapeError);
  EXPECT_THROW(Shape({0, kLarge, kLarge}), ShapeError) << "its strides would not fit";
  EXPECT_THROW(Shape({int64_t{1} << 32, int64_t{1} << 32}), ShapeError)
      << "the product of its extents wraps to 0";
  EXPECT_EQ(Shape({kLarge, kLarge / 8}).numel(), int64_t{1} << 59);
  EXPECT_EQ(Shape({0, 7}).numel(), 0);
  EXPECT_EQ(message_of<ShapeError>([] { Shape({2, 3})[2]; }), "axis 2 of a tensor of shape [2, 3]");
}

TEST(Tensor, UndefinedTensorsHaveNoElements) {
  const Tensor nothing;
  EXPECT_FALSE(nothing.defined());
  EXPECT_EQ(nothing.numel(), 0);
  EXPECT_EQ(nothing.bytes(), 0u);
  EXPECT_EQ(Tensor::zeros({}).numel(), 1) << "a scalar has one";
  EXPECT_THROW(nothing.at(), ShapeError);
  EXPECT_THROW(nothing.item(), ShapeError);
}

TEST(Tensor, FromRejectsAnotherNumberOfElements) {
  EXPECT_EQ(message_of<ShapeError>([] {
              Tensor::from(std::vector{1.0f, 2.0f}, {3});
            }),
            "Tensor::from: shape [3] holds 3 elements, found 2");
}

TEST(Tensor, AtChecksItsIndices) {
  Tensor x = counted({2, 3, 4});
  EXPECT_EQ(x.at(1, 2, 3), 23.0f);
  EXPECT_EQ(x.at(-1, -3, -4), 12.0f);
  x.at(0, 1, 2) = 50.0f;
  EXPECT_EQ(x.values()[6], 50.0f);
  const Tensor columns = counted({3, 5}).columns(1, 2);
  EXPECT_EQ(columns.at(2, 1), 12.0f);
  const Tensor ids = Tensor::from(std::vector<int32_t>{4, 7}, {2});
  EXPECT_EQ(ids.at<int32_t>(1), 7);
  EXPECT_EQ(Tensor::full({}, 3.0f).at(), 3.0f);
  EXPECT_EQ(message_of<ShapeError>([&] { x.at(0, 3, 0); }), "at(0, 3, 0): no element of shape [2, 3, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] { x.at(0, 0, -5); }), "at(0, 0, -5): no element of shape [2, 3, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] { x.at(1, 2); }), "at(1, 2): no element of shape [2, 3, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] { ids.at(0); }), "tensor [2]: expected f32, found i32");
}

TEST(Tensor, ValuesOfATemporaryTensorAreACopy) {
  const auto values = Tensor::full({1000}, 2).values();
  Tensor::full({1000}, 7);  // takes the memory of the first
  EXPECT_EQ(std::ranges::count(values, 2.0f), 1000);
  static_assert(!std::is_assignable_v<decltype(Tensor::full({1}, 2).values()[0]), float>);
}

TEST(Tensor, SliceCopiesAlongAnyAxis) {
  const Tensor x = counted({2, 3, 4});
  const auto expect = [](const Tensor& found, const Shape& shape, const std::vector<float>& values) {
    EXPECT_EQ(found.shape(), shape);
    ASSERT_TRUE(found.contiguous());
    EXPECT_EQ(std::vector<float>(found.values().begin(), found.values().end()), values);
  };
  expect(x.slice(0, 1, 1), {1, 3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(x.slice(1, 1, 2), {2, 2, 4}, {4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(x.slice(-1, 1, 2), {2, 3, 2}, {1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22});
  expect(x.slice(1, 3, 0), {2, 0, 4}, {});
  expect(counted({5}).slice(0, 2, 2), {2}, {2, 3});
  // Also of a view; changing the copy does not affect the original.
  Tensor part = x.columns(1, 2).slice(0, 1, 1);
  expect(part, {1, 3, 2}, {13, 14, 17, 18, 21, 22});
  part.at(0, 0, 0) = -1;
  EXPECT_EQ(x.at(1, 0, 1), 13.0f);
  EXPECT_EQ(message_of<ShapeError>([&] { x.slice(1, 2, 2); }),
            "slice: 2 elements from 2 of axis 1 of shape [2, 3, 4]");
  EXPECT_THROW(x.slice(3, 0, 1), ShapeError);
  EXPECT_THROW(x.slice(0, -1, 1), ShapeError);
  EXPECT_THROW(x.slice_rows(std::numeric_limits<int64_t>::max(), 2), ShapeError);
  EXPECT_THROW(x.columns(std::numeric_limits<int64_t>::max(), 2), ShapeError);
}

TEST(Tensor, Prints) {
  EXPECT_EQ(printed(counted({2, 3})), "f32 [2, 3]: 0, 1, 2, 3, 4, 5");
  EXPECT_EQ(printed(counted({8})), "f32 [8]: 0, 1, 2, 3, 4, 5, 6, 7");
  EXPECT_EQ(printed(counted({3, 4}).columns(1, 3)), "f32 [3, 3]: 1, 2, 3, 5, ..., 7, 9, 10, 11");
  EXPECT_EQ(printed(Tensor::from(std::vector<uint8_t>{65, 0}, {2})), "u8 [2]: 65, 0");
  EXPECT_EQ(printed(Tensor::from(std::vector<int8_t>{-3}, {1})), "i8 [1]: -3");
  EXPECT_EQ(printed(Tensor::from(std::vector{BFloat16{0x3FC0}}, {1})), "bf16 [1]: 1.5");
  EXPECT_EQ(printed(Tensor::zeros({0, 3}, DType::i32)), "i32 [0, 3]");
  EXPECT_EQ(printed(Tensor()), "an undefined tensor");
}

TEST(Tensor, AReadOnlyTensorRefusesEveryWriteAndNamesItsOrigin) {
  Tensor tensor = Tensor::full({2, 3}, 1).as_read_only("w of model.safetensors");
  const Tensor same = tensor;
  Tensor copy = tensor, moved = Tensor(copy), view = tensor.slice_rows(0, 1), columns = tensor.columns(1, 2),
         flat = tensor.reshape({6});
  for (Tensor* one : {&copy, &moved, &view, &columns, &flat}) {
    ASSERT_TRUE(one->read_only());
    const Tensor other = Tensor::zeros(one->shape());
    for (const std::function<void()>& write :
         std::vector<std::function<void()>>{[&] { one->data(); }, [&] { one->device_data(); },
                                            [&] { one->fill_zero(); }, [&] { one->copy_from(other); }}) {
      EXPECT_NE(message_of<UsageError>(write).find("read-only: w of model.safetensors"), std::string::npos);
    }
  }
  EXPECT_THROW(flat.values(), UsageError);
  EXPECT_THROW(flat.at(0) = 2, UsageError);
  EXPECT_EQ(same.at(1, 2), 1.0f);
  EXPECT_EQ(same.values()[5], 1.0f);
  Tensor writable = same.clone();
  writable.at(0, 0) = 2;
  copy = writable;
  copy.at(0, 0) = 3;
  EXPECT_EQ(writable.at(0, 0), 3.0f);
  EXPECT_FALSE(Tensor::zeros({2}).read_only());
}

TEST(Tensor, AViewKeepsTheStorageAliveAndNothingElseDoes) {
  bool freed = false;
  Tensor view;
  {
    const Storage storage(new std::byte[24], [&freed](const std::byte* memory) {
      freed = true;
      delete[] memory;
    });
    Tensor whole = Tensor::wrap(storage, {3, 2}, DType::f32);
    std::ranges::copy(std::vector<float>{1, 2, 3, 4, 5, 6}, whole.data());
    view = whole.reshape({2, 3}).slice_rows(1, 1).columns(1, 2).as_read_only("a test");
  }
  EXPECT_FALSE(freed);
  EXPECT_EQ(std::as_const(view).at(0, 1), 6.0f);
  view = Tensor();
  EXPECT_TRUE(freed);
}

TEST(Half, EveryF16IsWidenedExactlyAndBack) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float wide = widened(half);
    ASSERT_EQ(std::signbit(wide), bits >> 15 == 1);
    if (exponent == 31) {
      ASSERT_TRUE(fraction == 0 ? std::isinf(wide) : std::isnan(wide)) << bits;
    } else {
      ASSERT_EQ(std::abs(wide),
                std::ldexp(exponent == 0 ? fraction : 1024 + fraction, std::max(exponent, 1) - 25));
    }
    ASSERT_TRUE(std::isnan(wide) || nearest_f16(wide) == half) << bits;
    // The middle of two numbers rounds to the even one, and its neighbours to the nearer.
    if (exponent == 31 || bits >> 15 == 1) continue;
    const float middle =
        bits == 0x7BFF ? 65520.0f : (wide + widened(Float16{static_cast<uint16_t>(bits + 1)})) / 2;
    ASSERT_EQ(nearest_f16(middle).bits, bits + (bits & 1)) << bits;
    ASSERT_EQ(nearest_f16(std::nextafter(middle, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(nearest_f16(std::nextafter(middle, 1e9f)).bits, bits + 1) << bits;
  }
  EXPECT_TRUE(std::isnan(widened(nearest_f16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(widened(nearest_f16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_EQ(nearest_f16(-1e30f).bits, 0xFC00);
}

TEST(Offsets, RejectInvalidValues) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(message_of<ShapeError>([] { Offsets::uniform(3, kMost); }),
            "offsets: expected fewer than 2^31 tokens, found 3 sequences of 2147483647");
  EXPECT_THROW(Offsets::uniform(1, kMost + 1), ShapeError);
  EXPECT_THROW(Offsets::uniform(-1, 2), ShapeError);
  EXPECT_THROW(Offsets::of_lengths(std::vector<int32_t>{1, -1}), ShapeError);
  EXPECT_THROW(Offsets({0, 3, 2}), ShapeError);
  EXPECT_THROW(Offsets({1, 3}), ShapeError);
  EXPECT_EQ(Offsets::uniform(2, 3), Offsets({0, 3, 6}));
}

TEST(Ragged, JoinsSequences) {
  const Ragged ids = Ragged::from(std::vector<std::vector<int32_t>>{{5, 6}, {}, {7}});
  EXPECT_EQ(ids.offsets, Offsets({0, 2, 2, 3}));
  EXPECT_EQ(printed(ids.values), "i32 [3]: 5, 6, 7");
  EXPECT_EQ(Ragged::from(std::vector<std::vector<float>>{}).values.numel(), 0);
  const std::vector<int32_t> text{5, 6, 7};
  const std::vector<std::span<const int32_t>> parts{std::span(text).first(2), {}, std::span(text).last(1)};
  EXPECT_EQ(Ragged::from(parts).offsets, ids.offsets);
  EXPECT_EQ(printed(Ragged::from(parts).values), printed(ids.values));
}

// Views and copies of numbers in blocks never divide a block.
TEST(Tensor, BlocksStayWhole) {
  const std::vector<uint8_t> bytes = qkv::testing::random_blocks(DType::q4_0, 3 * 96, 1);
  const Tensor raw = Tensor::from(bytes, {std::ssize(bytes)});
  const Tensor blocks =
      Tensor::wrap(Storage(std::make_shared<Tensor>(raw), const_cast<std::byte*>(raw.as_bytes().data())),
                   {3, 96}, DType::q4_0);
  EXPECT_EQ(blocks.bytes(), 3u * 3 * 18);
  const auto numbers = [](const Tensor& tensor) {
    const Tensor whole = tensor.clone();
    std::vector<float> wide(static_cast<size_t>(whole.numel()));
    widen_blocks(DType::q4_0, whole.as_bytes().data(), whole.numel(), wide.data());
    return wide;
  };
  const std::vector<float> all = numbers(blocks);
  EXPECT_EQ(numbers(blocks.slice_rows(1, 2)), std::vector<float>(all.begin() + 96, all.end()));
  const std::vector<float> columns = numbers(blocks.columns(32, 64));
  ASSERT_EQ(columns.size(), 3u * 64);
  for (size_t i = 0; i < columns.size(); ++i) ASSERT_EQ(columns[i], all[i / 64 * 96 + 32 + i % 64]);
  EXPECT_EQ(numbers(blocks.reshape({9, 32})), all);
  const auto refused = [](const auto& call) { return message_of<ShapeError>(call); };
  for (const std::string& message :
       {refused([&] { blocks.columns(16, 32); }), refused([&] { blocks.columns(32, 8); }), refused([&] {
          blocks.reshape({18, 16});
        }),
        refused([&] {
          Tensor::empty({2, 40}, DType::q8_0);
        })})
    EXPECT_NE(message.find("a multiple of 32 columns"), std::string::npos) << message;
  EXPECT_NE(refused([&] { blocks.data<float>(); }).find("expected f32, found q4_0"), std::string::npos);
}

}  // namespace

#pragma once
// Calls with invalid arguments: each throws a qkv::Error or returns a correct result.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/tensor/tensor.h"

namespace qkv::testing {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max(), kLowest = std::numeric_limits<int64_t>::min();

// Rows of the tables: a call, and its expected outcome.
// The call throws a qkv::Error whose message contains the text.
#define THROWS(text, ...) \
  EXPECT_TRUE(::qkv::testing::throws(text, #__VA_ARGS__, [&] { (void)(__VA_ARGS__); }))
// The call returns a tensor with exactly these elements.
#define RETURNS(expected, ...) \
  EXPECT_TRUE(::qkv::testing::returns(expected, #__VA_ARGS__, [&] { return __VA_ARGS__; }))

template <class Call>
::testing::AssertionResult throws(const std::string& text, const char* row, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (std::string(error.what()).find(text) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << row << ": expected \"" << text << "\" in: " << error.what();
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure() << row << ": expected a qkv::Error, found: " << error.what();
  }
  return ::testing::AssertionFailure() << row << ": expected an error, found a result";
}

// Expects `call` to return, or to throw a qkv::Error: which of both depends on details. The results of calls
// that return are checked elsewhere.
template <class Call>
void expect_orderly(const std::string& what, const Call& call) {
  try {
    call();
  } catch (const Error&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": threw an error that is not ours: " << error.what();
  }
}

inline bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || a.defined() != b.defined()) return false;
  const Tensor x = to_host(a).clone(), y = to_host(b).clone();
  return x.numel() == 0 || std::memcmp(x.as_bytes().data(), y.as_bytes().data(), x.bytes()) == 0;
}

template <class Call>
::testing::AssertionResult returns(const Tensor& expected, const char* row, const Call& call) {
  try {
    const Tensor found = call();
    if (same_elements(found, expected)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << row << ": expected " << expected << ", found " << found;
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure() << row << ": expected " << expected << ", found: " << error.what();
  }
}

// 2^40 bytes of inaccessible memory: reading an element ends the program.
inline Storage forbidden_memory() {
  constexpr size_t kBytes = size_t{1} << 40;
  static const Storage memory = [] {
    void* const begin =
        ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) throw std::bad_alloc();
    return Storage(static_cast<std::byte*>(begin), [](std::byte* address) { ::munmap(address, kBytes); });
  }();
  return memory;
}

inline Shape with_extent(const Shape& shape, int axis, int64_t extent) {
  std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents[static_cast<size_t>(axis)] = extent;
  return Shape{std::span<const int64_t>(extents)};
}

// The same elements as columns of a wider matrix.
inline Tensor strided(const Tensor& x) {
  const Shape wide = with_extent(x.shape(), x.rank() - 1, x.cols() + 3);
  Tensor y = Tensor::zeros(wide, x.dtype()).columns(1, x.cols());
  y.copy_from(x);
  return y;
}

struct Unfit {
  std::string what;
  Tensor tensor;
};

// Variants of `good`, which has extents of at least 2, that a function must reject or handle.
inline std::vector<Unfit> unfit_elements(const Tensor& good, const std::vector<DType>& also_fit) {
  std::vector<Unfit> all{{"undefined", {}}};
  Tensor moved = good.clone();
  const Tensor taken = std::move(moved);
  all.push_back({"moved-from", moved});  // NOLINT(bugprone-use-after-move)
  for (const DType dtype : {DType::f32, DType::i32, DType::u8, DType::bf16, DType::i8}) {
    if (dtype == good.dtype() || std::ranges::find(also_fit, dtype) != also_fit.end()) continue;
    all.push_back({name_of(dtype), Tensor::zeros(good.shape(), dtype)});
  }
  return all;
}

// Likewise, variants of the shape. Axes in `free` may have any extent.
inline std::vector<Unfit> unfit_shapes(const Tensor& good, const std::vector<int>& free) {
  const Shape& shape = good.shape();
  std::vector<Unfit> all;
  const auto zeros = [&](std::string what, const Shape& of) {
    all.push_back({std::move(what), Tensor::zeros(of, good.dtype())});
  };
  zeros("a scalar", Shape{});
  if (shape.rank() > 1) zeros("flattened", {shape.numel()});
  if (shape.rank() < Shape::kMaxRank) {
    std::vector<int64_t> more(shape.extents().begin(), shape.extents().end());
    more.insert(more.begin(), 2);
    zeros("an axis more", Shape{std::span<const int64_t>(more)});
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (std::ranges::find(free, axis) != free.end()) continue;
    const std::string name = concat("axis ", axis, " ");
    zeros(name + "empty", with_extent(shape, axis, 0));
    zeros(name + "shorter", with_extent(shape, axis, shape[axis] - 1));
    zeros(name + "longer", with_extent(shape, axis, shape[axis] + 1));
    all.push_back({name + "huge", Tensor::wrap(forbidden_memory(), with_extent(shape, axis, int64_t{1} << 20),
                                               good.dtype())});
  }
  return all;
}

// Both, with one dtype.
inline std::vector<Unfit> unfit_variants(const Tensor& good, const std::vector<int>& free) {
  std::vector<Unfit> all = unfit_elements(good, {});
  std::ranges::move(unfit_shapes(good, free), std::back_inserter(all));
  return all;
}

}  // namespace qkv::testing

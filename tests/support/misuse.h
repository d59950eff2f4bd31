#pragma once
// Calls with invalid arguments: each throws a qkv::Error or returns a correct result.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/tensor/tensor.h"

namespace qkv::testing {

// Number of calls so far.
inline std::atomic<int64_t> misuses = 0;

// Expects `call` to throw a qkv::Error whose message contains `name`.
template <class Call>
void expect_refusal(const std::string& name, const std::string& what, const Call& call) {
  ++misuses;
  try {
    call();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos)
        << what << ": the message does not name \"" << name << "\": " << error.what();
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << name << ", " << what << ": threw an error that is not ours: " << error.what();
    return;
  }
  ADD_FAILURE() << name << ", " << what << ": expected an error, found a result";
}

// Expects `call` to return, or to throw a qkv::Error: which of both depends on details. The results of calls
// that return are checked elsewhere.
template <class Call>
void expect_orderly(const std::string& what, const Call& call) {
  ++misuses;
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
  return x.numel() == 0 || std::memcmp(x.address(), y.address(), x.bytes()) == 0;
}

// Expects `call` to throw a qkv::Error or to return exactly `expected`.
template <class Call>
void expect_refusal_or(const Tensor& expected, const std::string& what, const Call& call) {
  ++misuses;
  try {
    const Tensor found = call();
    EXPECT_TRUE(same_elements(found, expected)) << what << ": expected " << expected << ", found " << found;
  } catch (const Error&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": threw an error that is not ours: " << error.what();
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

}  // namespace qkv::testing

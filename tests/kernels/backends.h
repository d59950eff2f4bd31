#pragma once
// Compares every kernel of every backend with the reference backend: equal arguments must give nearly equal
// results and no writes beside them. Lengths range from zero to more than two of the widest vectors, and
// addresses are unaligned. A new backend should pass test_backends_*.cc first.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/kernels/dispatch.h"
#include "qkv/tensor/tensor.h"
#include "tests/kernels/rowwise.h"
#include "tests/support/devices.h"

namespace qkv::kernels {

inline constexpr int64_t kLongest = 2 * 16 + 3;  // floats
inline constexpr Accumulate kBoth[] = {Accumulate::no, Accumulate::yes};

// One call of a kernel on a device. Inputs are copied there, each after a few unrelated elements.
class Call {
 public:
  Call(Device device, int64_t misaligned)
      : kernels(backend(device)), device_(device), misaligned_(misaligned) {}

  const Backend& kernels;

  // Random numbers, a function of the seed.
  const float* input(int64_t count, uint64_t seed, float size = 1) {
    return place(Numbers(count, seed, size, misaligned_)) + misaligned_;
  }
  template <class T>
  const T* input(const std::vector<T>& values) {
    return static_cast<const T*>(place(Tensor::from(values, {static_cast<int64_t>(values.size())})));
  }
  // A result buffer, initialised with random numbers for kernels that accumulate.
  float* output(int64_t count, uint64_t seed = 99, float size = 1) {
    float* const whole = place(Numbers(count, seed, size, misaligned_));
    outputs_.push_back(tensors_.back());
    return whole + misaligned_;
  }
  int32_t* integers(int64_t count) {
    Tensor all = Tensor::zeros({count}, DType::i32, device_);
    for (int64_t i = 0; i < count; ++i)
      numbers_.emplace_back([all, i] { return static_cast<double>(to_host(all).data<int32_t>()[i]); });
    return address<int32_t>(all);
  }
  // A result of one number.
  template <class T>
  T* result() {
    Tensor number = Tensor::zeros({1}, DType::i64, device_);
    numbers_.emplace_back([number] {
      T value;
      std::memcpy(&value, to_host(number).data<int64_t>(), sizeof(T));
      return static_cast<double>(value);
    });
    return static_cast<T*>(address<void>(number));
  }

  // All results of the call, including the memory around them.
  std::vector<double> results() const {
    std::vector<double> all;
    for (const auto& number : numbers_) all.push_back(number());
    for (const Tensor& output : outputs_) {
      const Tensor host = to_host(output);
      all.insert(all.end(), host.values().begin(), host.values().end());
    }
    return all;
  }

 private:
  float* place(const Numbers& numbers) {
    return static_cast<float*>(place(Tensor::from(numbers.all(), {std::ssize(numbers.all())})));
  }
  void* place(const Tensor& host) {
    tensors_.push_back(from_host(host, device_));
    return address<void>(tensors_.back());
  }

  Device device_;
  int64_t misaligned_;
  std::vector<Tensor> tensors_, outputs_;
  std::vector<std::function<double()>> numbers_;
};

// Expects equal results on all devices, to tolerance * max(1, |expected|).
inline void expect_agreement(const std::string& what, double tolerance,
                             const std::function<void(Call&)>& kernel) {
  for (const int64_t misaligned : {0, 1, 3}) {
    const auto run = [&](Device device) {
      Call call(device, misaligned);
      kernel(call);
      return call.results();
    };
    std::vector<double> expected;
    if (misaligned == 1) {  // the arrays of the call's arguments end before its work begins
      const testing::QueuedReference queued;
      expected = run(Device::reference);
    } else {
      expected = run(Device::reference);
    }
    ASSERT_FALSE(expected.empty()) << what;
    for (const Device device : kDevices) {
      if (device == Device::reference || !testing::has_backend(device)) continue;
      const std::vector<double> found = run(device);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        if (found[i] == expected[i]) continue;  // equal infinities too
        if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
        ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
            << name_of(device) << ", " << what << " at " << i << ", misaligned by " << misaligned;
      }
    }
  }
}

// Runs the test for each length from 0 or 1 on, up to more than two of the machine's widest vectors.
inline void for_lengths(int64_t first, const std::function<void(int64_t)>& test) {
  for_each_target([&] {
    for (int64_t n = first; n <= kLongest; ++n) test(n);
  });
}

inline std::string sizes(const std::string& name, int64_t n, Accumulate accumulate = Accumulate::no) {
  return name + " of " + std::to_string(n) + (accumulate == Accumulate::yes ? ", added" : "");
}

}  // namespace qkv::kernels

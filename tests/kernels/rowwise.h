#pragma once
// Shared by the tests of row-wise kernels.

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/dropout.h"
#include "qkv/kernels/instruction_set.h"
#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

// Numbers in [-size, size) at an offset that misaligns data() by that many floats.
class Numbers {
 public:
  Numbers(int64_t count, uint64_t seed, float size = 1, int64_t misaligned = 1)
      : numbers_(static_cast<size_t>(count + misaligned + kGuard)), offset_(misaligned), count_(count) {
    RandomStream random(seed);
    for (float& x : numbers_) x = size * (2 * random.uniform() - 1);
    before_ = numbers_;
  }

  float* data() { return numbers_.data() + offset_; }
  const float* data() const { return numbers_.data() + offset_; }
  int64_t size() const { return count_; }
  float& operator[](int64_t i) { return data()[i]; }
  float operator[](int64_t i) const { return data()[i]; }
  // The initial value.
  float before(int64_t i) const { return before_[static_cast<size_t>(offset_ + i)]; }

  // The data and the memory around it.
  const std::vector<float>& all() const { return numbers_; }

  // Whether the memory around the data is unchanged.
  bool surroundings_untouched() const {
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - offset_;
      if ((at < 0 || at >= count_) && numbers_[i] != before_[i]) return false;
    }
    return true;
  }

  bool same_bits(const Numbers& other) const {
    return count_ == other.count_ && std::memcmp(data(), other.data(), static_cast<size_t>(count_) * 4) == 0;
  }

 private:
  static constexpr int64_t kGuard = 40;  // floats after the data, more than two vectors
  std::vector<float> numbers_, before_;
  int64_t offset_, count_;
};

// Expects `found` to equal `expected` (+ initial values), to `absolute` + `relative` |expected| per element.
inline void expect_near(const Numbers& found, const std::vector<double>& expected, double absolute,
                        double relative, Accumulate accumulate, const std::string& what) {
  ASSERT_EQ(static_cast<size_t>(found.size()), expected.size()) << what;
  for (int64_t i = 0; i < found.size(); ++i) {
    const double own = expected[static_cast<size_t>(i)];
    const double full = own + (accumulate == Accumulate::yes ? double{found.before(i)} : 0.0);
    ASSERT_NEAR(double{found[i]}, full, absolute + relative * std::abs(own)) << what << " at " << i;
  }
  ASSERT_TRUE(found.surroundings_untouched()) << what;
}

// Runs the test once with each compiled instruction set that this machine supports; with QKV_ISA, with that
// one alone.
inline void for_each_target(const std::function<void()>& test) {
  instruction_set();
  const int64_t all = hwy::SupportedTargets();
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    // Not compiled: dispatch would fall back to the baseline, which is in the list.
    if ((target & (HWY_SSSE3 | HWY_AVX3_DL)) != 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    test();
    if (std::getenv("QKV_ISA") != nullptr) break;  // the best of those that are left comes first
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(all);
}

// Runs `result` with 1, 2 and 3 threads and expects the same bits.
inline void expect_same_for_any_threads(const std::function<Numbers()>& result) {
  const int before = threads();
  set_threads(1);
  const Numbers one = result();
  for (const int count : {2, 3}) {
    set_threads(count);
    EXPECT_TRUE(result().same_bits(one)) << count << " threads";
  }
  set_threads(before);
}

inline constexpr Activation kActivations[] = {
    Activation::identity, Activation::relu, Activation::gelu_exact,   Activation::gelu_tanh,
    Activation::silu,     Activation::tanh, Activation::relu_squared, Activation::quick_gelu};

inline Dropout some_dropout(float rate = 0.3f) {
  return {.rate = rate, .seed = 0x1234567890ABCDEFu, .step = 17, .site = 5, .first_row = 4000000000u};
}

}  // namespace qkv::kernels

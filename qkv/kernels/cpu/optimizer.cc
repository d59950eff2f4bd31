#include "qkv/kernels/optimizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "qkv/base/parallel.h"
#include "qkv/kernels/counters.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/optimizer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

// What a step comes to for one element, made once in double precision. Outside the targets' namespaces: all
// of them use it.
#ifndef QKV_KERNELS_CPU_ADAM_FACTORS
#define QKV_KERNELS_CPU_ADAM_FACTORS
namespace qkv::kernels {
namespace {

struct AdamFactors {
  float beta1, beta2, one_minus_beta1, one_minus_beta2, gradient, epsilon;
  float step_size;          // learning_rate / (1 - beta1^step)
  float second_correction;  // 1 / sqrt(1 - beta2^step)
  float keep;               // 1 - learning_rate * weight_decay
  float average;            // 1 - average_decay
};

}  // namespace
}  // namespace qkv::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// The elements [begin, end) of a slot.
void adam_range(const AdamFactors& factors, const AdamSlot& slot, int64_t begin, int64_t end) {
  const Floats d;
  const auto beta1 = hn::Set(d, factors.beta1), beta2 = hn::Set(d, factors.beta2);
  const auto one_minus_beta1 = hn::Set(d, factors.one_minus_beta1);
  const auto one_minus_beta2 = hn::Set(d, factors.one_minus_beta2);
  const auto gradient_factor = hn::Set(d, factors.gradient), epsilon = hn::Set(d, factors.epsilon);
  const auto step_size = hn::Set(d, factors.step_size), keep = hn::Set(d, factors.keep);
  const auto second_correction = hn::Set(d, factors.second_correction);
  const auto average_factor = hn::Set(d, factors.average);
  for_vectors(d, end - begin, [&](auto part, int64_t i) HWY_ATTR {
    const int64_t at = begin + i;
    const auto gradient = hn::Mul(load(d, slot.gradient + at, part), gradient_factor);
    const auto m =
        hn::MulAdd(beta1, load(d, slot.first_moment + at, part), hn::Mul(one_minus_beta1, gradient));
    const auto v = hn::MulAdd(beta2, load(d, slot.second_moment + at, part),
                              hn::Mul(one_minus_beta2, hn::Mul(gradient, gradient)));
    const auto deviation = hn::MulAdd(hn::Sqrt(v), second_correction, epsilon);
    const auto value =
        hn::NegMulAdd(step_size, hn::Div(m, deviation), hn::Mul(keep, load(d, slot.value + at, part)));
    store(d, m, slot.first_moment + at, part);
    store(d, v, slot.second_moment + at, part);
    store(d, value, slot.value + at, part);
    if (slot.average != nullptr) {
      const auto average = load(d, slot.average + at, part);
      store(d, hn::MulAdd(average_factor, hn::Sub(value, average), average), slot.average + at, part);
    }
  });
}

double sum_of_squares_range(const float* x, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> from;
  return sum_of_row(d, count, [&](auto part, int64_t i) HWY_ATTR {
    const auto v = hn::PromoteTo(d, load(from, x + i, part));
    return hn::Mul(v, v);
  });
}

bool finite_range(const float* x, int64_t count) {
  const Floats d;
  auto zeros = hn::Zero(d);  // x - x is 0 for finite numbers, else NaN, which sums keep
  for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
    const auto v = load(d, x + i, part);
    zeros = hn::Add(zeros, hn::Sub(v, v));
  });
  return hn::AllTrue(d, hn::Eq(zeros, hn::Zero(d)));
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(adam_range);
HWY_EXPORT(sum_of_squares_range);
HWY_EXPORT(finite_range);

constexpr int64_t kPiece = 32768;  // elements, of one piece of work

}  // namespace

void adam(const AdamStep& step, std::span<const AdamSlot> slots, float average_decay) {
  const double beta1 = step.beta1, beta2 = step.beta2, learning_rate = step.learning_rate;
  const double count = static_cast<double>(step.step);
  const AdamFactors factors{
      .beta1 = step.beta1,
      .beta2 = step.beta2,
      .one_minus_beta1 = static_cast<float>(1 - beta1),
      .one_minus_beta2 = static_cast<float>(1 - beta2),
      .gradient = step.gradient_factor,
      .epsilon = step.epsilon,
      .step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, count))),
      .second_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, count))),
      .keep = static_cast<float>(1 - learning_rate * static_cast<double>(step.weight_decay)),
      .average = static_cast<float>(1 - static_cast<double>(average_decay))};
  int64_t total = 0;
  for (const AdamSlot& slot : slots) {
    total += slot.count;
    count_numbers(slot.count * (slot.average != nullptr ? 9 : 7));
  }
  // Pieces of all slots laid end to end, so that small ones cost no fork of their own.
  parallel_for(total, kPiece, [&](int64_t begin, int64_t end) {
    int64_t first = 0;
    for (const AdamSlot& slot : slots) {
      if (first >= end) break;
      const int64_t from = std::max(begin - first, int64_t{0}), to = std::min(end - first, slot.count);
      if (from < to) HWY_DYNAMIC_DISPATCH(adam_range)(factors, slot, from, to);
      first += slot.count;
    }
  });
}

double sum_of_squares(const float* x, int64_t count) {
  count_numbers(count);
  // As many blocks as have room here, so that nothing is allocated.
  constexpr int64_t kMaxBlocks = 1024;
  const int64_t block = std::max(kPiece, (count + kMaxBlocks - 1) / kMaxBlocks);
  std::array<double, kMaxBlocks> sums{};
  parallel_for(count, block, [&](int64_t begin, int64_t end) {
    sums[static_cast<size_t>(begin / block)] =
        HWY_DYNAMIC_DISPATCH(sum_of_squares_range)(x + begin, end - begin);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

bool all_finite(const float* x, int64_t count) {
  count_numbers(count);
  std::atomic<bool> finite{true};
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    if (finite.load(std::memory_order_relaxed) &&
        !HWY_DYNAMIC_DISPATCH(finite_range)(x + begin, end - begin)) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load();
}

}  // namespace qkv::kernels
#endif

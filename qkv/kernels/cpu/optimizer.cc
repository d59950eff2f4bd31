#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/optimizer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

// A slot for the loops, with the rule's coefficients, computed once in double precision. Outside the targets'
// namespaces, because all of them use it.
#ifndef QKV_KERNELS_CPU_OPTIMIZER_RANGE
#define QKV_KERNELS_CPU_OPTIMIZER_RANGE
namespace qkv::kernels {
namespace {

struct UpdateRange {
  float* value = nullptr;
  const float* gradient = nullptr;
  float* state[3] = {};
  float* average = nullptr;

  float gradient_factor = 1;
  float keep = 1;            // decoupled weight decay: factor of the value before the update
  float coupled = 0;         // coupled weight decay: factor of the value added to the gradient
  float average_factor = 0;  // 1 - average_decay
  float step_size = 0;       // factor of the update
  float epsilon = 0;
  float decay1 = 0, share1 = 1, decay2 = 0, share2 = 1;  // of moving averages and their new values
  float second_correction = 1;                           // Adam: 1 / sqrt(1 - beta2^step)
  bool first_step = false;
};

}  // namespace
}  // namespace qkv::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// w <- keep * w - step_size * direction(g) for the elements [begin, end), and the average. direction(part,
// at, g) updates the rule's state.
template <class Direction>
HWY_INLINE void update_elements(const UpdateRange& r, int64_t begin, int64_t end,
                                const Direction& direction) {
  const Floats d;
  const auto gradient_factor = hn::Set(d, r.gradient_factor), coupled = hn::Set(d, r.coupled);
  const auto keep = hn::Set(d, r.keep), step_size = hn::Set(d, r.step_size);
  const auto average_factor = hn::Set(d, r.average_factor);
  for_vectors(d, end - begin, [&](auto part, int64_t i) HWY_ATTR {
    const int64_t at = begin + i;
    const auto before = load(d, r.value + at, part);
    auto gradient = hn::Mul(load(d, r.gradient + at, part), gradient_factor);
    if (r.coupled != 0) gradient = hn::MulAdd(coupled, before, gradient);
    const auto value = hn::NegMulAdd(step_size, direction(part, at, gradient), hn::Mul(keep, before));
    store(d, value, r.value + at, part);
    if (r.average != nullptr) {
      const auto average = load(d, r.average + at, part);
      store(d, hn::MulAdd(average_factor, hn::Sub(value, average), average), r.average + at, part);
    }
  });
}

void adam_range(const UpdateRange& r, int64_t begin, int64_t end) {
  const Floats d;
  const auto beta1 = hn::Set(d, r.decay1), one_minus_beta1 = hn::Set(d, r.share1);
  const auto beta2 = hn::Set(d, r.decay2), one_minus_beta2 = hn::Set(d, r.share2);
  const auto second_correction = hn::Set(d, r.second_correction), epsilon = hn::Set(d, r.epsilon);
  update_elements(r, begin, end, [&](auto part, int64_t at, FloatVector gradient) HWY_ATTR {
    const auto m = hn::MulAdd(beta1, load(d, r.state[0] + at, part), hn::Mul(one_minus_beta1, gradient));
    auto v = hn::MulAdd(beta2, load(d, r.state[1] + at, part),
                        hn::Mul(one_minus_beta2, hn::Mul(gradient, gradient)));
    store(d, m, r.state[0] + at, part);
    store(d, v, r.state[1] + at, part);
    if (r.state[2] != nullptr) {
      v = hn::Max(v, load(d, r.state[2] + at, part));
      store(d, v, r.state[2] + at, part);
    }
    return hn::Div(m, hn::MulAdd(hn::Sqrt(v), second_correction, epsilon));
  });
}

void sgd_range(const UpdateRange& r, bool nesterov, int64_t begin, int64_t end) {
  const Floats d;
  const auto momentum = hn::Set(d, r.decay1), share = hn::Set(d, r.share1);
  update_elements(r, begin, end, [&](auto part, int64_t at, FloatVector gradient) HWY_ATTR {
    if (r.state[0] == nullptr) return gradient;
    const auto b = r.first_step
                       ? gradient
                       : hn::MulAdd(momentum, load(d, r.state[0] + at, part), hn::Mul(share, gradient));
    store(d, b, r.state[0] + at, part);
    return nesterov ? hn::MulAdd(momentum, b, gradient) : b;
  });
}

void rmsprop_range(const UpdateRange& r, int64_t begin, int64_t end) {
  const Floats d;
  const auto alpha = hn::Set(d, r.decay1), share = hn::Set(d, r.share1), epsilon = hn::Set(d, r.epsilon);
  const auto momentum = hn::Set(d, r.decay2);
  update_elements(r, begin, end, [&](auto part, int64_t at, FloatVector gradient) HWY_ATTR {
    auto v = hn::MulAdd(alpha, load(d, r.state[0] + at, part), hn::Mul(share, hn::Mul(gradient, gradient)));
    store(d, v, r.state[0] + at, part);
    if (r.state[1] != nullptr) {
      const auto a = hn::MulAdd(alpha, load(d, r.state[1] + at, part), hn::Mul(share, gradient));
      store(d, a, r.state[1] + at, part);
      v = hn::Max(hn::NegMulAdd(a, a, v), hn::Zero(d));  // rounding may make it negative
    }
    auto update = hn::Div(gradient, hn::Add(hn::Sqrt(v), epsilon));
    if (r.state[2] != nullptr) {
      update = hn::MulAdd(momentum, load(d, r.state[2] + at, part), update);
      store(d, update, r.state[2] + at, part);
    }
    return update;
  });
}

void adagrad_range(const UpdateRange& r, int64_t begin, int64_t end) {
  const Floats d;
  const auto epsilon = hn::Set(d, r.epsilon);
  update_elements(r, begin, end, [&](auto part, int64_t at, FloatVector gradient) HWY_ATTR {
    const auto v = hn::MulAdd(gradient, gradient, load(d, r.state[0] + at, part));
    store(d, v, r.state[0] + at, part);
    return hn::Div(gradient, hn::Add(hn::Sqrt(v), epsilon));
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
  auto zeros = hn::Zero(d);  // x - x is 0 for finite numbers, else NaN, which sums preserve
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
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(adam_range);
HWY_EXPORT(sgd_range);
HWY_EXPORT(rmsprop_range);
HWY_EXPORT(adagrad_range);
HWY_EXPORT(sum_of_squares_range);
HWY_EXPORT(finite_range);

constexpr int64_t kPiece = 32768;  // elements per piece of work

UpdateRange range_of(const ParameterUpdate& slot, const OptimizerPass& pass, bool decoupled) {
  UpdateRange range;
  range.value = slot.value;
  range.gradient = slot.gradient;
  for (size_t i = 0; i < slot.state.size(); ++i) range.state[i] = slot.state[i];
  range.average = slot.average;
  range.gradient_factor = pass.gradient_factor;
  range.step_size = slot.learning_rate;
  if (decoupled) {
    range.keep = static_cast<float>(1 - static_cast<double>(slot.learning_rate) *
                                            static_cast<double>(slot.weight_decay));
  } else {
    range.coupled = slot.weight_decay;
  }
  range.average_factor = static_cast<float>(1 - static_cast<double>(pass.average_decay));
  range.first_step = slot.step == 1;
  return range;
}

float one_minus(float x) { return static_cast<float>(1 - static_cast<double>(x)); }

// Calls update(range, begin, end) for pieces of all slots concatenated, so that small slots need no fork of
// their own.
template <class Update>
void for_pieces(std::span<const ParameterUpdate> slots, const std::vector<UpdateRange>& ranges,
                const Update& update) {
  int64_t total = 0;
  for (const ParameterUpdate& slot : slots) {
    total += slot.count();
  }
  parallel_for(total, kPiece, [&](int64_t begin, int64_t end) {
    int64_t first = 0;
    for (size_t i = 0; i < slots.size() && first < end; ++i) {
      const int64_t count = slots[i].count();
      const int64_t from = std::max(begin - first, int64_t{0}), to = std::min(end - first, count);
      if (from < to) update(ranges[i], from, to);
      first += count;
    }
  });
}

}  // namespace

void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  const double beta1 = rule.beta1, beta2 = rule.beta2;
  std::vector<UpdateRange> ranges;
  for (const ParameterUpdate& slot : slots) {
    const double count = static_cast<double>(slot.step), learning_rate = slot.learning_rate;
    UpdateRange& range = ranges.emplace_back(range_of(slot, pass, rule.decoupled));
    range.decay1 = rule.beta1;
    range.share1 = one_minus(rule.beta1);
    range.decay2 = rule.beta2;
    range.share2 = one_minus(rule.beta2);
    range.epsilon = rule.epsilon;
    range.step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, count)));
    range.second_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, count)));
  }
  for_pieces(slots, ranges, [](const UpdateRange& range, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(adam_range)(range, begin, end);
  });
}

void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  std::vector<UpdateRange> ranges;
  for (const ParameterUpdate& slot : slots) {
    UpdateRange& range = ranges.emplace_back(range_of(slot, pass, false));
    range.decay1 = rule.momentum;
    range.share1 = one_minus(rule.dampening);
  }
  for_pieces(slots, ranges, [&rule](const UpdateRange& range, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sgd_range)(range, rule.nesterov, begin, end);
  });
}

void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  std::vector<UpdateRange> ranges;
  for (const ParameterUpdate& slot : slots) {
    UpdateRange& range = ranges.emplace_back(range_of(slot, pass, false));
    range.decay1 = rule.alpha;
    range.share1 = one_minus(rule.alpha);
    range.decay2 = rule.momentum;
    range.epsilon = rule.epsilon;
  }
  for_pieces(slots, ranges, [](const UpdateRange& range, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rmsprop_range)(range, begin, end);
  });
}

void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  std::vector<UpdateRange> ranges;
  for (const ParameterUpdate& slot : slots) {
    const double earlier = static_cast<double>(slot.step - 1), learning_rate = slot.learning_rate;
    UpdateRange& range = ranges.emplace_back(range_of(slot, pass, false));
    range.step_size = static_cast<float>(learning_rate / (1 + earlier * static_cast<double>(rule.lr_decay)));
    range.epsilon = rule.epsilon;
  }
  for_pieces(slots, ranges, [](const UpdateRange& range, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(adagrad_range)(range, begin, end);
  });
}

double sum_of_squares(const float* x, int64_t count) {
  // As many blocks as fit here, so that nothing is allocated.
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
  std::atomic<bool> finite{true};
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    if (finite.load(std::memory_order_relaxed) &&
        !HWY_DYNAMIC_DISPATCH(finite_range)(x + begin, end - begin)) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load();
}

}  // namespace qkv::kernels::cpu
#endif

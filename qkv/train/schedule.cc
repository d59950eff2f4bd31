#include "qkv/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "qkv/base/error.h"

namespace qkv::train {

int64_t ScheduleOptions::warmup() const {
  constexpr int64_t kLongestShare = 10;  // 1 / share
  if (!shorten_warmup || !needs_total_steps()) return warmup_steps;
  return std::min(warmup_steps, total_steps / kLongestShare);
}

void ScheduleOptions::validate() const {
  if (warmup_steps < 0)
    throw UsageError(concat("schedule.warmup_steps: expected 0 or more, found ", warmup_steps));
  if (kind == ScheduleKind::paper) {
    if (!(factor > 0)) throw UsageError(concat("schedule.factor: expected more than 0, found ", factor));
    if (d_model < 1) throw UsageError(concat("d_model: expected 1 or more, found ", d_model));
  } else if (!(learning_rate > 0) || !std::isfinite(learning_rate)) {
    throw UsageError(concat("schedule.learning_rate: expected more than 0, found ", learning_rate));
  }
  if (!needs_total_steps()) return;
  if (total_steps < 1) {
    throw UsageError(
        concat("schedule.total_steps (or train.max_steps): expected 1 or more, found ", total_steps));
  }
  if (total_steps <= warmup()) {
    throw UsageError(concat("schedule.warmup_steps: expected fewer than the run's ", total_steps,
                            " steps, found ", warmup_steps, "; give fewer warm-up steps or more steps"));
  }
  if (!(minimum >= 0 && minimum <= learning_rate)) {
    throw UsageError(concat("schedule.minimum: expected 0 to schedule.learning_rate = ", learning_rate,
                            ", found ", minimum));
  }
}

double learning_rate(const ScheduleOptions& options, int64_t step) {
  const double now = static_cast<double>(std::max<int64_t>(step, 1));
  const double warmup = static_cast<double>(options.warmup());
  const double peak = options.learning_rate;
  if (options.kind == ScheduleKind::paper) {
    const double falling = 1 / std::sqrt(now);
    const double shape = warmup > 0 ? std::min(falling, now * std::pow(warmup, -1.5)) : falling;
    return options.factor / std::sqrt(static_cast<double>(options.d_model)) * shape;
  }
  if (now < warmup) return peak * now / warmup;
  switch (options.kind) {
    case ScheduleKind::inverse_sqrt:
      return peak * std::sqrt(std::max(warmup, 1.0) / now);
    case ScheduleKind::cosine:
    case ScheduleKind::linear: {
      const double length = static_cast<double>(options.total_steps) - warmup;
      const double progress = length > 0 ? std::min((now - warmup) / length, 1.0) : 1.0;
      const double low = options.minimum;
      const double left = options.kind == ScheduleKind::linear
                              ? 1 - progress
                              : 0.5 * (1 + std::cos(std::numbers::pi * progress));
      return low + (peak - low) * left;
    }
    case ScheduleKind::paper:
    case ScheduleKind::constant:
      break;
  }
  return peak;
}

}  // namespace qkv::train

#include "qkv/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"

namespace qkv::train {

Refits Refits::parsed(std::string_view field, std::string_view text) {
  Refits refits;
  for (const auto& [after, steps] : parse_pairs(field, text, "STEP:STEPS,... such as 310:1130,620:1190"))
    refits.list.push_back({.after = after, .total_steps = steps});
  return refits;
}

std::string Refits::text() const {
  NumberPairs pairs;
  for (const Refit& one : list) pairs.emplace_back(one.after, one.total_steps);
  return pairs_text(pairs);
}

void ScheduleOptions::fit(int64_t steps) {
  constexpr int64_t kLongestShare = 10;  // 1 / share
  const int64_t longest = steps / kLongestShare;
  if (fit_warmup && warmup_steps > longest) {
    if (kind == ScheduleKind::paper) {
      const int64_t peak = std::max<int64_t>(1, longest);
      factor *= std::sqrt(static_cast<float>(peak) / static_cast<float>(warmup_steps));
    }
    warmup_steps = longest;
  }
  fit_warmup = false;
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
  if (total_steps <= warmup_steps) {
    throw UsageError(concat("schedule.warmup_steps: expected fewer than the run's ", total_steps,
                            " steps, found ", warmup_steps, "; give fewer warm-up steps or more steps"));
  }
  if (!(minimum >= 0 && minimum <= learning_rate)) {
    throw UsageError(concat("schedule.minimum: expected 0 to schedule.learning_rate = ", learning_rate,
                            ", found ", minimum));
  }
  int64_t after = warmup_steps, total = total_steps;
  for (const Refit& refit : refits.list) {
    if (refit.after < after || refit.after >= std::min(total, refit.total_steps)) {
      throw UsageError(concat("schedule.refits: expected a step from ", after, " to below ",
                              std::min(total, refit.total_steps), ", found ", refit.after));
    }
    after = refit.after;
    total = refit.total_steps;
  }
}

namespace {

// The share of the way from the warm-up to the last step: 0 to 1.
double progress_at(const ScheduleOptions& options, double step) {
  double done = 0, from = static_cast<double>(options.warmup_steps);
  double total = static_cast<double>(options.total_steps);
  const auto advance = [&](double to) {
    const double share = total > from ? std::min((to - from) / (total - from), 1.0) : 1.0;
    done += (1 - done) * share;
  };
  for (const Refit& refit : options.refits.list) {
    const double after = static_cast<double>(refit.after);
    if (step <= after) break;
    advance(after);
    from = after;
    total = static_cast<double>(refit.total_steps);
  }
  advance(step);
  return done;
}

}  // namespace

double learning_rate(const ScheduleOptions& options, int64_t step) {
  const double now = static_cast<double>(std::max<int64_t>(step, 1));
  const double warmup = static_cast<double>(options.warmup_steps);
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
      const double progress = progress_at(options, now);
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

#pragma once
// Learning-rate schedules: pure functions of the step.

#include <cstdint>

namespace qkv::train {

enum class ScheduleKind {
  paper,  // factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017, equation 3)
  inverse_sqrt,  // linear warm-up to learning_rate, then learning_rate * sqrt(warmup / step)
  cosine,        // linear warm-up to learning_rate, then half a cosine down to minimum at total_steps
  linear,        // linear warm-up to learning_rate, then linearly down to minimum at total_steps
  constant,      // linear warm-up to learning_rate, then constant
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::inverse_sqrt;
  int64_t warmup_steps = 1000;  // 0: no warm-up
  // Whether `cosine` and `linear` have a warm-up of at most a tenth of total_steps: for warm-up steps that
  // are a default rather than a choice (Job::complete()).
  bool shorten_warmup = false;
  float learning_rate = 1e-3f;  // the maximum; unused by `paper`
  float factor = 1;             // factor of the `paper` schedule
  int64_t d_model = 512;        // for the `paper` schedule
  float minimum = 0;            // the end value of `cosine` and `linear`
  int64_t total_steps = 0;      // their last step

  // Whether the schedule depends on total_steps.
  bool needs_total_steps() const { return kind == ScheduleKind::cosine || kind == ScheduleKind::linear; }
  // The warm-up steps of the run.
  int64_t warmup() const;
  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

// The learning rate of a step, counted from 1.
double learning_rate(const ScheduleOptions& options, int64_t step);

}  // namespace qkv::train

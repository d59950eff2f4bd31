#pragma once
// Learning-rate schedules: pure functions of the step.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::train {

enum class ScheduleKind {
  paper,  // factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017, equation 3)
  inverse_sqrt,  // linear warm-up to learning_rate, then learning_rate * sqrt(warmup / step)
  cosine,        // linear warm-up to learning_rate, then half a cosine down to minimum at total_steps
  linear,        // linear warm-up to learning_rate, then linearly down to minimum at total_steps
  constant,      // linear warm-up to learning_rate, then constant
};

// The rest of a `cosine` or `linear` schedule, after a step, was fitted to another last step: it goes on from
// the learning rate reached, slower or faster. A run with a time limit does so as its speed changes.
struct Refit {
  int64_t after = 0;  // steps completed
  int64_t total_steps = 0;

  bool operator==(const Refit&) const = default;
};

struct Refits {
  std::vector<Refit> list;  // by ascending steps

  bool operator==(const Refits&) const = default;

  // As text: "310:1130,620:1190" (after:total_steps); "" has none. parsed() throws UsageError naming the
  // field, what was expected and what was found.
  std::string text() const;
  static Refits parsed(std::string_view field, std::string_view text);
  friend void parse_field(std::string_view field, std::string_view text, Refits& value) {
    value = parsed(field, text);
  }
  friend std::string field_text(const Refits& value) { return value.text(); }
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::inverse_sqrt;
  int64_t warmup_steps = 1000;  // 0: no warm-up
  // Whether the trainer shortens warmup_steps to a tenth of the run: for a default rather than a choice
  // (Job::complete()).
  bool fit_warmup = false;
  float learning_rate = 1e-3f;  // the maximum; unused by `paper`
  float factor = 1;             // factor of the `paper` schedule
  int64_t d_model = 512;        // for the `paper` schedule
  float minimum = 0;            // the end value of `cosine` and `linear`
  int64_t total_steps = 0;      // their last step, unless there are
  Refits refits = {};

  // Whether the schedule depends on total_steps.
  bool needs_total_steps() const { return kind == ScheduleKind::cosine || kind == ScheduleKind::linear; }
  // total_steps, or that of the last of `refits`.
  int64_t last_step() const { return refits.list.empty() ? total_steps : refits.list.back().total_steps; }
  // With fit_warmup, shortens the warm-up to a tenth of `steps` and clears fit_warmup. The maximum of the
  // learning rate stays, of `paper` by a smaller factor.
  void fit(int64_t steps);
  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

// The learning rate of a step, counted from 1.
double learning_rate(const ScheduleOptions& options, int64_t step);

}  // namespace qkv::train

#include "apps/outlook.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

// The value after twice the steps, if a doubling improves a model at most by as much as the doubling before:
// a loss by as much, a perplexity, its exponential, by the same factor.
double bound_of(const train::Metric& metric, double now, double before) {
  if (metric.name == "perplexity") return std::max(1.0, now * now / before);
  const double bound = now + (now - before);
  return metric.higher_is_better ? std::min(bound, 1.0) : std::max(bound, 0.0);
}

}  // namespace

std::string outlook(const train::TrainResult& result) {
  const std::string& name = result.best_by.name;
  std::vector<const train::ValidationReport*> scored;
  for (const train::ValidationReport& report : result.validations) {
    if (report.evaluation.value(name)) scored.push_back(&report);
  }
  if (scored.empty()) return "";
  const int64_t steps = scored.back()->step;
  const auto is_late = [steps](int64_t step) {
    constexpr double kLate = 0.75;
    return static_cast<double>(step) >= kLate * static_cast<double>(steps);
  };
  if (!is_late(result.best_step)) {
    return concat(name, " is best at step ", result.best_step, " of ", steps,
                  ": more time would not help; more data, more dropout or a smaller model may");
  }
  if (scored.size() == 1) return "one validation only: --validate-every shows whether more time would help";
  const auto distance = [steps](const train::ValidationReport* report) {
    return std::abs(report->step - steps / 2);
  };
  const train::ValidationReport& half = **std::ranges::min_element(scored, {}, distance);
  const auto best = std::ranges::find(scored, result.best_step, &train::ValidationReport::step);
  if (is_late(half.step) || best == scored.end()) return "";  // a resumed run, whose first half is not here
  const double now = *(*best)->evaluation.value(name), before = *half.evaluation.value(name);
  const double unit = name == "bleu" ? 100 : 1;
  return concat(name == "bleu" ? "BLEU" : name, " ", four_digits(unit * now), ", at half the steps ",
                four_digits(unit * before), ": twice the time would reach ",
                four_digits(unit * bound_of(result.best_by, now, before)), " at best");
}

}  // namespace qkv::apps

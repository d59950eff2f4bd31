#include "apps/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "apps/cli/messages.h"
#include "apps/terminal.h"

namespace qkv::apps {
namespace {

template <class... Parts>
std::string format(const char* pattern, Parts... parts) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, parts...);
  return text;
}

}  // namespace

std::string clock_time(double seconds) {
  const long all = std::lround(std::clamp(seconds, 0.0, 3.6e9));
  const long hours = all / 3600, minutes = all / 60 % 60;
  return hours > 0 ? format("%ld:%02ld:%02ld", hours, minutes, all % 60)
                   : format("%ld:%02ld", minutes, all % 60);
}

TrainProgress::TrainProgress(bool quiet) : quiet_(quiet), terminal_(stderr_is_terminal()) {}

TrainProgress::~TrainProgress() { clear(); }

void TrainProgress::clear() {
  if (showing_) std::fputs("\r\033[K", stderr);
  showing_ = false;
}

void TrainProgress::say(const std::string& line) {
  if (quiet_) return;
  clear();
  apps::say(line);
}

void TrainProgress::add_row(const std::string& row) {
  if (quiet_) return;
  clear();
  std::fputs((row + "\n").c_str(), stderr);
}

void TrainProgress::on_stage(const std::string& what) { say(what + " ..."); }

void TrainProgress::on_start(const train::StartReport& report) {
  units_ = report.task.units;
  if (report.resumed_from > 0)
    say(format("resuming from step %lld", static_cast<long long>(report.resumed_from)));
  std::string line = format("%.2f million parameters", static_cast<double>(report.parameters) / 1e6);
  for (const auto& [name, size] : report.task.sizes) {
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    line += format(", %s %lld", words.c_str(), static_cast<long long>(size));
  }
  line += ", " + counted(report.task.train_items, report.task.items) + " in " +
          counted(report.batches_in_epoch, "batches") + " per epoch";
  say(line);
}

void TrainProgress::on_schedule(const train::ScheduleReport& report) {
  std::string line =
      format("planned: %lld steps, %lld of them warm-up", static_cast<long long>(report.total_steps),
             static_cast<long long>(report.warmup_steps));
  if (report.validate_every > 0)
    line += format(", a validation every %lld", static_cast<long long>(report.validate_every));
  if (report.seconds_per_step > 0) line += format("; %.3g s per step", report.seconds_per_step);
  if (report.seconds_per_validation > 0)
    line += format(", %.3g s per validation", report.seconds_per_validation);
  say(line);
}

std::string outlook(const train::TrainResult& result) {
  const std::string& name = result.best_by.name;
  const auto value_at = [&name](const train::ValidationReport& report) {
    return report.evaluation.value(name);
  };
  std::vector<const train::ValidationReport*> scored;
  for (const train::ValidationReport& report : result.validations) {
    if (value_at(report)) scored.push_back(&report);
  }
  if (scored.empty()) return "";
  const train::ValidationReport& last = *scored.back();
  const auto distance = [&last](const train::ValidationReport* report) {
    return std::abs(report->step - last.step / 2);
  };
  const train::ValidationReport& half = **std::ranges::min_element(scored, {}, distance);
  constexpr double kLate = 0.75;
  if (static_cast<double>(result.best_step) < kLate * static_cast<double>(last.step)) {
    return format(
        "%s is best at step %lld of %lld: more time would not help; more data, more dropout or a "
        "smaller model may",
        name.c_str(), static_cast<long long>(result.best_step), static_cast<long long>(last.step));
  }
  if (static_cast<double>(half.step) > kLate * static_cast<double>(last.step))
    return "one validation only: --validate-every shows whether more time would help";
  // A doubling of the steps improves a model at most by as much as the doubling before: a loss by as much, a
  // perplexity, its exponential, by the same factor.
  const double now = *value_at(last), before = *value_at(half);
  double bound = name == "perplexity" ? now * now / before : now + (now - before);
  if (name != "loss" && result.best_by.higher_is_better) bound = std::min(bound, 1.0);
  const char* const pattern = "%s %.4g, at half the steps %.4g: twice the time would reach %.4g at best";
  const double unit = name == "bleu" ? 100 : 1;
  return format(pattern, name == "bleu" ? "BLEU" : name.c_str(), unit * now, unit * before, unit * bound);
}

std::string TrainProgress::line_of(const train::StepReport& report) const {
  std::string line =
      format("epoch %lld (%2.0f%%)  step %lld  loss %.3f  %.0f %s/s", static_cast<long long>(report.epoch),
             100 * report.epoch_progress, static_cast<long long>(report.step), report.loss,
             report.units_per_second, units_.c_str());
  if (report.seconds_left) line += "  left " + clock_time(*report.seconds_left);
  return line;
}

void TrainProgress::on_step(const train::StepReport& report) {
  constexpr double kSecondsBetweenLines = 60;
  last_loss_ = format("%.3f", report.loss);
  if (quiet_) return;
  if (!terminal_) {
    if (report.seconds - said_seconds_ < kSecondsBetweenLines) return;
    said_seconds_ = report.seconds;
    add_row(line_of(report));
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (showing_ && now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  std::fputs(("\r" + line_of(report) + "\033[K").c_str(), stderr);
  std::fflush(stderr);
  showing_ = true;
}

void TrainProgress::on_validation(const train::ValidationReport& report) {
  std::string line = format("%s  step %lld  epoch %lld", clock_time(report.run_seconds).c_str(),
                            static_cast<long long>(report.step), static_cast<long long>(report.epoch));
  if (!last_loss_.empty()) line += "  train loss " + last_loss_;
  line += format("  valid loss %.4f", report.evaluation.loss);
  for (const auto& [name, value] : report.evaluation.metrics) {
    // BLEU is shown in hundredths.
    line += name == "bleu" ? format("  BLEU %.2f", 100 * value) : format("  %s %.4f", name.c_str(), value);
  }
  if (report.best) line += "  (best)";
  said_seconds_ = report.run_seconds;
  add_row(line);
  for (const std::string& sample : report.evaluation.samples) add_row("  | " + sample);
}

}  // namespace qkv::apps

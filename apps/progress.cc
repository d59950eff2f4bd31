#include "apps/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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
  validates_ = report.task.valid_items > 0;
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
  const auto steps = [](int64_t number) {
    return std::to_string(number) + (number == 1 ? " step" : " steps");
  };
  std::string line = "planned: " + steps(report.total_steps) + ", " + std::to_string(report.warmup_steps) +
                     " of them warm-up";
  if (validates_) {
    line += report.validate_every > 0 ? ", a validation every " + steps(report.validate_every)
                                      : ", a validation after each epoch";
  }
  if (report.seconds_per_step > 0) line += format("; %.3g s per step", report.seconds_per_step);
  if (report.seconds_per_validation > 0)
    line += format(", %.3g s per validation", report.seconds_per_validation);
  say(line);
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
  if (!report.evaluation.extent.empty()) line += "  (" + report.evaluation.extent + ")";
  if (report.best) line += "  (best)";
  said_seconds_ = report.run_seconds;
  add_row(line);
  for (const std::string& sample : report.evaluation.samples) add_row("  | " + sample);
}

}  // namespace qkv::apps

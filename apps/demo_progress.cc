#include "apps/demo_progress.h"

#include <cstdio>

#include "apps/command.h"
#include "apps/progress.h"
#include "qkv/metrics/exact_match.h"

namespace qkv::apps {
namespace {

std::string table_row(const std::string& time, const std::string& step, const std::string& loss,
                      const std::string& exact, const std::string& example) {
  return "  " + pad_left(time, 5) + pad_left(step, 8) + pad_left(loss, 9) + pad_left(exact, 9) + "   " +
         example;
}

std::string fixed(const char* pattern, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

}  // namespace

DemoProgress::DemoProgress(std::filesystem::path folder, NumberTexts watched, int64_t steps)
    : folder_(std::move(folder)),
      watched_(std::move(watched)),
      steps_(steps),
      terminal_(stderr_is_terminal()),
      style_(Style::for_stderr()) {}

DemoProgress::~DemoProgress() {
  if (showing_) std::fputs("\r\033[K", stderr);
}

void DemoProgress::print(const std::string& line) {
  if (showing_) std::fputs("\r\033[K", stderr);
  showing_ = false;
  std::fputs((line + "\n").c_str(), stderr);
}

void DemoProgress::on_start(const train::StartReport& report) {
  char size[32];
  std::snprintf(size, sizeof(size), "%.2f", static_cast<double>(report.parameters) / 1e6);
  print(concat("model   ", size, " million parameters, ", report.task.sizes.at(0).second, " word pieces, ",
               grouped(steps_), " steps\n"));
  print(style_.dim(table_row("time", "step", "loss", "exact", watched_.english.front())));
}

void DemoProgress::on_step(const train::StepReport& report) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (showing_ && now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  std::string line = table_row(clock_time(report.seconds), grouped(report.step),
                               fixed("%.3f", report.curve("nll").value_or(report.loss)), "",
                               concat(grouped(static_cast<int64_t>(report.units_per_second)), " tokens/s"));
  if (report.seconds_left) line += ", " + clock_time(*report.seconds_left) + " left";
  std::fputs(("\r" + style_.dim(line) + "\033[K").c_str(), stderr);
  std::fflush(stderr);
  showing_ = true;
}

void DemoProgress::on_validation(const train::ValidationReport& report) {
  std::string exact, example;
  if (report.best) {  // the folder now has this model
    const pipelines::Translator translator(folder_);
    pipelines::TranslateOptions options = translator.default_options();
    options.search.beam = 1;
    const std::vector<std::string> translations = translate_all(translator, watched_.english, options);
    exact = fixed("%.1f%%", 100 * metrics::exact_match(translations, watched_.german).share());
    const bool right = translations.front() == watched_.german.front();
    example = right ? style_.good(translations.front()) : translations.front();
  }
  print(table_row(clock_time(report.run_seconds), grouped(report.step), fixed("%.3f", report.evaluation.loss),
                  exact, example));
}

}  // namespace qkv::apps

#pragma once
// The demo's progress display: a table with one line per validation.

#include <chrono>
#include <filesystem>
#include <string>

#include "apps/demo.h"
#include "apps/terminal.h"
#include "qkv/train/observer.h"

namespace qkv::apps {

class DemoProgress : public train::TrainObserver {
 public:
  // At each validation, the model in `folder` translates `watched`; the first one is shown.
  DemoProgress(std::filesystem::path folder, NumberTexts watched, int64_t steps);
  ~DemoProgress() override;

  void on_start(const train::StartReport& report) override;
  void on_step(const train::StepReport& report) override;
  void on_validation(const train::ValidationReport& report) override;

 private:
  void print(const std::string& line);

  std::filesystem::path folder_;
  NumberTexts watched_;
  int64_t steps_;
  bool terminal_, showing_ = false;
  Style style_;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace qkv::apps

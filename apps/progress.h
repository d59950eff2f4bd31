#pragma once
// Training progress on stderr: on a terminal a line that is rewritten in place, elsewhere a plain line per
// minute and per validation.

#include <chrono>
#include <string>

#include "qkv/train/trainer.h"

namespace qkv::apps {

class TrainProgress : public train::TrainObserver {
 public:
  explicit TrainProgress(bool quiet = false);
  ~TrainProgress() override;

  void on_stage(const std::string& what) override;
  void on_start(const train::StartReport& report) override;
  void on_schedule(const train::ScheduleReport& report) override;
  void on_step(const train::StepReport& report) override;
  void on_validation(const train::ValidationReport& report) override;

  // Prints a message above the rewritten line.
  void say(const std::string& line);

 private:
  void clear();
  void add_row(const std::string& row);  // of the table of validations
  std::string line_of(const train::StepReport& report) const;

  bool quiet_, terminal_;
  bool validates_ = false;
  bool showing_ = false;
  double said_seconds_ = 0;  // of the run, at the last permanent line
  std::string last_loss_, units_;
  std::chrono::steady_clock::time_point shown_;
};

// 3725 -> "1:02:05", 65 -> "1:05".
std::string clock_time(double seconds);

}  // namespace qkv::apps

#pragma once
// What a run reports, and an error after a step, as if the run were interrupted.

#include <vector>

#include "qkv/base/error.h"
#include "qkv/train/observer.h"

namespace qkv::train {

struct Recorder : TrainObserver {
  int64_t fail_after = 0;  // step; 0: never
  StartReport start;
  StepReport last;
  std::vector<double> losses;
  std::vector<ValidationReport> validations;

  void on_start(const StartReport& report) override { start = report; }
  void on_step(const StepReport& report) override {
    losses.push_back(report.loss);
    last = report;
    if (report.step == fail_after) throw IoError("interrupted");
  }
  void on_validation(const ValidationReport& report) override { validations.push_back(report); }
};

}  // namespace qkv::train

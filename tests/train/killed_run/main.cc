// killed_run FOLDER OPTIMIZER STEP: resumes or starts the short character run in FOLDER and sends itself
// SIGKILL after STEP. Exits with status 1 and a message if the run ends otherwise.
// killed_run FOLDER pretrain-bert STEP DATA: likewise the short run of that task, on the texts in DATA.

#include <csignal>
#include <exception>
#include <iostream>
#include <string>

#include "tests/train/bert_run.h"
#include "tests/train/character_run.h"

namespace qkv::train::testing_task {
namespace {

struct Killer : TrainObserver {
  int64_t step = 0;
  void on_step(const StepReport& report) override {
    if (report.step == step) std::raise(SIGKILL);
  }
};

}  // namespace
}  // namespace qkv::train::testing_task

int main(int argc, char** argv) {
  using namespace qkv::train::testing_task;  // NOLINT(google-build-using-namespace)
  const bool pretrains = argc == 5 && argv[2] == std::string("pretrain-bert");
  if (argc != 4 && !pretrains) {
    std::cerr << "usage: killed_run FOLDER OPTIMIZER STEP | killed_run FOLDER pretrain-bert STEP DATA\n";
    return 2;
  }
  try {
    Killer killer;
    killer.step = std::stoll(argv[3]);
    if (pretrains) {
      qkv::train::run_job(topic_job(argv[4], argv[1]), killer);
    } else {
      train_characters(argv[1], short_run_with(argv[2]), killer);
    }
    std::cerr << "killed_run: the run ended before step " << argv[3] << '\n';
  } catch (const std::exception& error) {
    std::cerr << "killed_run: " << error.what() << '\n';
  }
  return 1;
}

// Trains in a folder and sends itself SIGKILL after STEP. Exits with status 1 and a message if the run ends
// otherwise.
//   killed_run FOLDER OPTIMIZER STEP   resumes or starts the short character run
//   killed_run SETTINGS STEP           likewise the run of `qkv train` whose task, folder and settings
//   (NAME=VALUE) are the
//                                      lines of the file SETTINGS

#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "qkv/base/files.h"
#include "qkv/train/tasks/answers/answer.h"
#include "qkv/train/tasks/embed/embed.h"
#include "qkv/train/tasks/image/image.h"
#include "qkv/train/tasks/labels/classify.h"
#include "qkv/train/tasks/labels/tag.h"
#include "qkv/train/tasks/lm/lm.h"
#include "qkv/train/tasks/pretrain_bert/pretrain_bert.h"
#include "qkv/train/tasks/translation/translation.h"
#include "tests/train/character_run.h"

namespace qkv::train::testing_task {
namespace {

struct Killer : TrainObserver {
  int64_t step = 0;
  void on_step(const StepReport& report) override {
    if (report.step == step) std::raise(SIGKILL);
  }
};

std::unique_ptr<Job> job_of(const std::string& task) {
  if (task == "classify") return std::make_unique<ClassifyJob>();
  if (task == "tag") return std::make_unique<TagJob>();
  if (task == "answer") return std::make_unique<AnswerJob>();
  if (task == "embed") return std::make_unique<EmbedJob>();
  if (task == "image") return std::make_unique<ImageJob>();
  if (task == "lm") return std::make_unique<LmJob>();
  if (task == "pretrain-bert") return std::make_unique<PretrainBertJob>();
  if (task == "translation") return std::make_unique<TranslationJob>();
  throw UsageError(concat("expected a task of qkv train, found ", task));
}

std::unique_ptr<Job> read_job(const std::string& file) {
  std::istringstream lines(read_file(file));
  std::string task, folder;
  std::getline(lines, task);
  std::getline(lines, folder);
  std::unique_ptr<Job> job = job_of(task);
  job->folder = folder;
  job->existing = IfRunExists::resume;
  for (std::string line; std::getline(lines, line);) {
    const size_t name = line.find('=');
    if (!job->set_field(line.substr(0, name), line.substr(name + 1)))
      throw UsageError(concat("unknown setting: ", line));
  }
  return job;
}

}  // namespace
}  // namespace qkv::train::testing_task

int main(int argc, char** argv) {
  using namespace qkv::train::testing_task;  // NOLINT(google-build-using-namespace)
  if (argc != 3 && argc != 4) {
    std::cerr << "usage: killed_run FOLDER OPTIMIZER STEP | killed_run SETTINGS STEP\n";
    return 2;
  }
  try {
    Killer killer;
    killer.step = std::stoll(argv[argc - 1]);
    if (argc == 3) {
      qkv::train::run_job(*read_job(argv[1]), killer);
    } else {
      train_characters(argv[1], short_run_with(argv[2]), killer);
    }
    std::cerr << "killed_run: the run ended before step " << argv[argc - 1] << '\n';
  } catch (const std::exception& error) {
    std::cerr << "killed_run: " << error.what() << '\n';
  }
  return 1;
}

// qkv verify-resume

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/progress.h"
#include "apps/stop.h"
#include "apps/training_task.h"
#include "qkv/base/error.h"
#include "qkv/base/stop.h"
#include "qkv/train/verify.h"

namespace qkv::apps {
namespace {

struct VerifyResumeArguments {
  std::filesystem::path folder;
  bool json = false, quiet = false;
};

std::unique_ptr<train::Job> job_of(const train::RunFolder& run) {
  if (!run.settings()) {
    throw UsageError(concat(run.path().string(), ": expected a training run, found no checkpoint"));
  }
  const auto name = run.settings()->find("task");
  const TrainingTask& task = task_named(name == run.settings()->end() ? "" : name->second, run.path());
  std::unique_ptr<train::Job> job = task.make_job();
  job->folder = run.path();
  for (const auto& [field, value] : *run.settings()) job->set_field(field, value);
  return job;
}

void verify(const VerifyResumeArguments& arguments) {
  const StopSignals stop;
  if (!std::filesystem::is_directory(arguments.folder)) {
    throw UsageError(concat(arguments.folder.string(), ": expected the folder of a run, found none"));
  }
  train::RunFolder run(arguments.folder, train::IfRunExists::resume);
  const std::unique_ptr<train::Job> job = job_of(run);
  TrainProgress progress(arguments.quiet);
  train::VerifyResult result;
  try {
    result = train::verify_resume(*job, std::move(run), progress, stop.flag());
  } catch (const Stopped&) {
    throw ExitStatus{stop.exit_status()};
  }
  const std::string steps = concat("steps ", result.from + 1, " to ", result.to);
  const bool same = result.first_different.empty();
  if (arguments.json) {
    const nlohmann::ordered_json out{
        {"from", result.from},           {"to", result.to}, {"tensors", result.tensors},
        {"different", result.different}, {"same", same},    {"first_different", result.first_different}};
    std::cout << out.dump(2) << std::endl;
  }
  if (!same) {
    throw DataError(concat(arguments.folder.string(), ": ", steps, ", repeated, differ in ", result.different,
                           " of ", result.tensors, " tensors; the first: ", result.first_different));
  }
  if (!arguments.json) {
    std::cout << steps << ", repeated, give the same bits (" << result.tensors << " tensors)" << std::endl;
  }
}

}  // namespace

void add_verify_resume(Command& app) {
  const auto arguments = std::make_shared<VerifyResumeArguments>();
  Command* command = add_command(
      app, "verify-resume",
      "Check that a training run is reproducible, bit for bit: repeat the last steps from the checkpoint\n"
      "before the newest (from the beginning if there is only one), and compare with the newest. If they\n"
      "differ, prints the first differing tensor and exits with status 1. The run is not changed.",
      "qkv verify-resume model");
  add_option(*command, "folder", arguments->folder, "DIR", "Folder of the run")->required();
  add_threads_option(*command);
  command->add_flag("--json", arguments->json, "Print the result as one JSON object");
  command->add_flag("--quiet", arguments->quiet, "Do not show progress on stderr");
  command->callback([arguments] { verify(*arguments); });
}

}  // namespace qkv::apps

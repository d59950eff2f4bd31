#include "qkv/train/job.h"

#include <utility>

#include "qkv/base/stop.h"

namespace qkv::train {
namespace {

Fields settings_of(const Job& job) {
  Fields settings{{"task", job.task_name()}};
  for (const Field& field : job.fields()) settings[field.name] = field.value;
  return settings;
}

TrainResult run_checked(const Job& job, RunFolder folder, TrainObserver& observer,
                        const std::atomic<bool>* stop) {
  std::unique_ptr<Task> task;
  try {
    if (!folder.resumes()) folder.record(settings_of(job));
    task = job.make_trained_task(folder.resumes(), observer, stop);
  } catch (const Stopped&) {
    TrainResult result;
    result.reason = StopReason::requested;
    result.steps = folder.steps();
    return result;
  } catch (...) {
    try {
      folder.withdraw();
    } catch (const IoError&) {  // the first error is reported
    }
    throw;
  }
  Trainer trainer(std::move(task), job.trainer_options(), std::move(folder));
  return trainer.run(observer, stop);
}

}  // namespace

std::unique_ptr<Task> Job::make_trained_task(bool resumes, TrainObserver& observer,
                                             const std::atomic<bool>* stop) const {
  std::unique_ptr<Task> task = make_task(resumes, observer, stop);
  if (options.lora.rank == 0) return task;
  if (options.device != Device::cpu)
    throw UsageError(concat("train.device: expected cpu with lora.rank, found ", name_of(options.device)));
  return std::make_unique<LoraTask>(std::move(task), options.lora, options.seed);
}

TrainResult run_job(const Job& job, TrainObserver& observer, const std::atomic<bool>* stop) {
  require_fitting_folder(job.folder, job.existing);
  job.check();
  return run_checked(job, RunFolder(job.folder, job.existing), observer, stop);
}

TrainResult run_job(const Job& job, RunFolder folder, TrainObserver& observer,
                    const std::atomic<bool>* stop) {
  job.check();
  return run_checked(job, std::move(folder), observer, stop);
}

}  // namespace qkv::train

#include "qkv/train/verify.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/base/stop.h"
#include "qkv/train/scratch_folder.h"

namespace qkv::train {
namespace {

// Forwards all calls, and stops the run at a step as on request, without a validation.
class EndAt : public TrainObserver {
 public:
  EndAt(TrainObserver& next, int64_t step, const std::atomic<bool>* stop)
      : next_(next), step_(step), stop_(stop) {}
  void on_stage(const std::string& what) override { next_.on_stage(what); }
  void on_start(const StartReport& report) override { next_.on_start(report); }
  void on_step(const StepReport& report) override {
    next_.on_step(report);
    if (report.step == step_ || (stop_ && *stop_)) end = true;
  }
  std::atomic<bool> end = false;

 private:
  TrainObserver& next_;
  int64_t step_;
  const std::atomic<bool>* stop_;
};

std::optional<Checkpoint> checkpoint_before(const CheckpointFolder& checkpoints, int64_t step) {
  for (const auto& [other, path] : checkpoints.list()) {
    if (other >= step) continue;
    try {
      return open_checkpoint(path);
    } catch (const Error& error) {
      log_warning(concat("skipping a checkpoint: ", error.what()));
    }
  }
  return std::nullopt;
}

// Saves the checkpoint as the only one of another folder, without references to files of its own folder.
void copy_to(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : checkpoint.file.names())
    tensors.push_back({name, checkpoint.file.tensor(name)});
  TrainState state = checkpoint.state;
  state.logs.clear();
  state.snapshots.clear();
  state.validation_due = false;
  CheckpointFolder(folder / "checkpoints").save(state, checkpoint.fields, tensors, 1);
}

TrainOptions redoing(TrainOptions options, int64_t step) {
  options.max_steps = step;
  options.max_epochs = 0;
  options.max_minutes = 0;
  options.patience = 0;
  options.validate_every = std::numeric_limits<int64_t>::max();
  options.checkpoint_every = 0;
  options.checkpoint_minutes = 0;
  return options;
}

bool same_bytes(const Tensor& x, const Tensor& y) {
  return x.shape() == y.shape() && x.dtype() == y.dtype() && std::ranges::equal(x.as_bytes(), y.as_bytes());
}

void compare(const Checkpoint& expected, const Checkpoint& found, VerifyResult& result) {
  for (const std::string& name : expected.file.names()) {
    ++result.tensors;
    if (found.file.contains(name) && same_bytes(expected.file.tensor(name), found.file.tensor(name)))
      continue;
    if (result.different++ == 0) result.first_different = name;
  }
  const TrainState &one = expected.state, &other = found.state;
  const bool same_place =
      one.steps == other.steps && one.micro_steps == other.micro_steps && one.cursor == other.cursor;
  if (!same_place && result.first_different.empty()) result.first_different = "the position in the data";
}

}  // namespace

VerifyResult verify_resume(const Job& job, RunFolder folder, TrainObserver& observer,
                           const std::atomic<bool>* stop) {
  const CheckpointFolder checkpoints(folder.path() / "checkpoints");
  if (!folder.resumes()) {
    throw UsageError(concat(folder.path().string(), ": expected a run with a checkpoint, found none"));
  }
  // A damaged newest checkpoint must not be replaced by an older one.
  const Checkpoint newest = open_checkpoint(checkpoints.list().front().second);
  const std::optional<Checkpoint> before = checkpoint_before(checkpoints, newest.state.steps);

  VerifyResult result;
  result.from = before ? before->state.steps : 0;
  result.to = newest.state.steps;
  const ScratchFolder scratch(folder.path() / concat("verify.partial-", ::getpid()));
  if (before) copy_to(scratch.path(), *before);
  EndAt watcher(observer, result.to, stop);
  std::unique_ptr<Task> task = job.make_trained_task(true, watcher, stop);
  const TrainOptions options = redoing(job.trainer_options(), result.to);
  Trainer(std::move(task), options, scratch.path(), IfRunExists::resume).run(watcher, &watcher.end);
  throw_if_stopped(stop);
  compare(newest, open_checkpoint(CheckpointFolder(scratch.path() / "checkpoints").list().front().second),
          result);
  return result;
}

}  // namespace qkv::train

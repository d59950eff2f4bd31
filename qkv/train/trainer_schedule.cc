// The length of a schedule that was not given, from the other limits.

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "qkv/ops/tape.h"
#include "qkv/train/trainer.h"

namespace qkv::train {
namespace {

// The share of the time limit that steps, validations and checkpoints may use by estimate; the rest covers
// slower steps.
constexpr double kPlannedShare = 0.95;
// Measuring ends after this share of the time limit, or after this many steps.
constexpr double kMeasuredShare = 0.02;
constexpr int64_t kMeasuredSteps = 50;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

// The length that the run has already, by its checkpoint or run.json.
void Trainer::adopt_total_steps() {
  if (!options_.schedule.needs_total_steps() || options_.schedule.total_steps > 0) return;
  if (!run_folder_.settings()) return;
  const auto saved = run_folder_.settings()->find(kTotalSteps);
  if (saved == run_folder_.settings()->end()) return;
  set_field(options_, kTotalSteps, saved->second);
  run_folder_.amend_record(kTotalSteps, saved->second);
}

void Trainer::set_total_steps(int64_t steps) {
  options_.schedule.total_steps = steps;
  for (Field& field : fields_) {
    if (field.name == kTotalSteps) field.value = std::to_string(steps);
  }
  run_folder_.amend_record(kTotalSteps, std::to_string(steps));
}

void Trainer::fix_total_steps() {
  ScheduleReport report;
  const auto steps_of = [&](int64_t batches) {
    return static_cast<double>(batches) / static_cast<double>(options_.accumulate);
  };
  const int64_t warmup = feed_->warmup_batches();  // no step was made yet: of the first epoch
  const double steps_in_epoch = steps_of(feed_->batches_in_epoch() - warmup);
  double steps = std::ceil(steps_of(warmup) + static_cast<double>(options_.max_epochs) * steps_in_epoch);
  bool by_time = false;  // which limit ends the run, for messages
  if (options_.max_minutes > 0) {
    observer_->on_stage("measuring the time of a step, for the schedule");
    report = measure();
    if (stop_ && *stop_) return;  // the resumed run measures again
    // A validation is followed by a checkpoint, and so is the last step.
    const double both = report.seconds_per_validation + report.seconds_per_checkpoint;
    double per_step = report.seconds_per_step;
    if (info_.valid_items > 0)
      per_step += both / (options_.validate_every > 0 ? static_cast<double>(options_.validate_every)
                                                      : std::max(1.0, steps_in_epoch));
    if (options_.checkpoint_every > 0)
      per_step += report.seconds_per_checkpoint / static_cast<double>(options_.checkpoint_every);
    const double left = options_.max_minutes * 60 * kPlannedShare - seconds_now() - both;
    const double fitting = std::floor(left / per_step);
    by_time = options_.max_epochs == 0 || fitting < steps;
    if (by_time) steps = fitting;
  }
  constexpr double kMaxSteps = 1e15;
  report.total_steps = static_cast<int64_t>(std::clamp(steps, 0.0, kMaxSteps));
  ScheduleOptions schedule = options_.schedule;
  schedule.total_steps = report.total_steps;
  if (report.total_steps < 1) throw UsageError("train.max_minutes: expected time for a step, found less");
  if (report.total_steps <= schedule.warmup()) {
    throw UsageError(concat("schedule.warmup_steps: expected fewer than the run's ", report.total_steps,
                            " steps, found ", schedule.warmup_steps, "; give fewer warm-up steps or more ",
                            by_time ? "minutes" : "epochs"));
  }
  schedule.validate();
  set_total_steps(report.total_steps);
  observer_->on_schedule(report);
}

// Runs the run's own first steps, those after a warm-up, with a learning rate of 0, and then restores
// weights, optimizer and batches.
ScheduleReport Trainer::measure() {
  const auto begin = std::chrono::steady_clock::now();
  const double limit = options_.max_minutes * 60;
  std::vector<Tensor> weights;
  for (const auto& [name, parameter] : optimizer_->parameters())
    weights.push_back(parameter.variable.value().clone());

  uint32_t micro_steps = 0;
  StepBatches batches;
  const auto step = [&] {
    batches = feed_->next();
    for (const auto& batch : batches.batches) {
      nn::ForwardContext context = training_context(++micro_steps);
      Tape tape;
      tape.backward(task_->loss(*batch, batches.size, context).loss);
    }
    try {
      optimizer_->step(0);
    } catch (const NumericError&) {  // the run's own step reports it
      optimizer_->clear_gradients();
    }
  };

  // A warm-up's batches have other costs than the rest of the run and the validation.
  if (const int64_t warmup = feed_->warmup_batches(); warmup > 0) restart_feed({.epoch = 0, .batch = warmup});

  ScheduleReport report;
  step();  // has costs that the others do not have: products are compiled, memory is requested
  report.seconds_per_step = seconds_since(begin);
  if (report.seconds_per_step < limit * kMeasuredShare) {
    const auto from = std::chrono::steady_clock::now();
    int64_t steps = 0;
    do {
      step();
      ++steps;
    } while (steps < kMeasuredSteps && seconds_since(from) < limit * kMeasuredShare && !(stop_ && *stop_));
    report.seconds_per_step = seconds_since(from) / static_cast<double>(steps);
  }
  if (info_.valid_items > 0) {
    const auto from = std::chrono::steady_clock::now();
    for (const auto& batch : batches.batches) {
      nn::ForwardContext context;
      task_->loss(*batch, batches.size, context);
    }
    report.seconds_per_validation = seconds_since(from) /
                                    static_cast<double>(std::max<int64_t>(1, batches.size.items)) *
                                    static_cast<double>(info_.valid_items) * task_->evaluation_passes();
  }
  report.seconds_per_checkpoint = time_of_a_checkpoint();

  for (size_t i = 0; i < weights.size(); ++i) {
    Variable variable = optimizer_->parameters()[i].parameter.variable;
    variable.set_value(weights[i]);
  }
  optimizer_.reset();  // only one optimizer's state at a time
  optimizer_ = make_optimizer(options_, nn::parameters_of(*task_), task_->parameter_groups());
  restart_feed(state_.cursor);
  report.seconds = seconds_since(begin);
  return report;
}

// By writing one to a folder of its own, which RunFolder removes after a kill.
double Trainer::time_of_a_checkpoint() const {
  const auto begin = std::chrono::steady_clock::now();
  const std::filesystem::path path = folder_ / concat("measured.partial-", ::getpid());
  std::vector<io::NamedTensor> tensors = optimizer_->state();
  for (const auto& [name, parameter] : optimizer_->parameters())
    tensors.push_back({"weights/" + name, parameter.variable.value()});
  CheckpointFolder(path).save(state_, {}, tensors, 1);
  std::filesystem::remove_all(path);
  return seconds_since(begin);
}

}  // namespace qkv::train

// The plan of a run: the steps, warm-up and validations that fit its limits.

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "qkv/train/ranks/replica.h"
#include "qkv/train/trainer.h"

namespace qkv::train {
namespace {

// The share of the time limit that steps, validations and checkpoints may use by estimate; the rest covers
// slower steps.
constexpr double kPlannedShare = 0.97;
// Measuring ends after this share of the time limit, or after this many steps.
constexpr double kMeasuredShare = 0.02;
constexpr int64_t kMeasuredSteps = 50;
// The rest of a schedule is compared with the time left after each such share of the limit, and fitted again
// if its steps differ by more than the tolerated share.
constexpr double kRefitShare = 0.05, kTolerated = 0.02;
// With fewer epochs, validations are between their ends too.
constexpr double kFewEpochs = 3;
constexpr double kWantedValidations = 10;
// A step runs forward and backward, which takes twice as long.
constexpr double kPassesPerStep = 3;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

// The plan that an interrupted run has already, by its checkpoint or run.json.
void Trainer::adopt_plan() {
  if (!run_folder_.settings()) return;
  const Fields& saved = *run_folder_.settings();
  const auto value = [&saved](const std::string& name) {
    const auto found = saved.find(name);
    return found == saved.end() ? std::string() : found->second;
  };
  const auto adopt = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) set_field(options_, name, value(name));
  };
  if (options_.schedule.needs_total_steps()) {
    if (options_.schedule.refits.list.empty()) adopt({"schedule.refits"});
    if (options_.schedule.total_steps == 0 && !value("schedule.total_steps").empty())
      adopt({"schedule.total_steps", "train.fit_steps"});
  }
  if (options_.schedule.fit_warmup && value("schedule.fit_warmup") == "false")
    adopt({"schedule.warmup_steps", "schedule.factor", "schedule.fit_warmup"});
  if (options_.samples.list.empty()) adopt({"train.validation_items"});
  if (options_.fit_validation && value("train.fit_validation") == "false")
    adopt({"train.validate_every", "train.fit_validation"});
}

// In the fields of checkpoints, and in run.json.
void Trainer::record_plan() {
  TrainOptions deciding = options_;
  if (!deciding.schedule.needs_total_steps()) {  // no effect then
    deciding.schedule.total_steps = 0;
    deciding.schedule.refits = {};
  }
  Fields recorded;
  for (const Field& now : fields(deciding)) {
    std::ranges::find(fields_, now.name, &Field::name)->value = now.value;
    recorded[now.name] = now.value;
  }
  run_folder_.amend_record(recorded);
}

bool Trainer::needs_plan() const {
  const ScheduleOptions& schedule = options_.schedule;
  return (schedule.needs_total_steps() && schedule.total_steps == 0) || schedule.fit_warmup ||
         (options_.fit_validation && info_.valid_items > 0);
}

double Trainer::steps_in_epoch() const {
  return static_cast<double>(replica_->feed().batches_in_epoch() - replica_->feed().warmup_batches()) /
         static_cast<double>(options_.accumulate);
}

int64_t Trainer::steps_of_other_limits() const {
  if (options_.max_epochs == 0) return options_.max_steps;
  const double warmup =
      static_cast<double>(replica_->feed().warmup_batches()) / static_cast<double>(options_.accumulate);
  constexpr double kMaxSteps = 1e15;
  const double steps =
      std::min(kMaxSteps, std::ceil(warmup + static_cast<double>(options_.max_epochs) * steps_in_epoch()));
  const auto of_epochs = static_cast<int64_t>(steps);
  return options_.max_steps > 0 ? std::min(options_.max_steps, of_epochs) : of_epochs;
}

// The last step is followed by a checkpoint, and a validation.
double Trainer::seconds_at_the_end() const {
  const bool validated = info_.valid_items == 0 || state_.validated_step == state_.steps;
  return checkpoint_seconds_ + (validated ? 0 : validation_seconds_);
}

// More steps, until the time limit.
int64_t Trainer::fitting_steps(double seconds_per_step) const {
  const double both = validation_seconds_ + checkpoint_seconds_;  // a validation is followed by a checkpoint
  double per_step = seconds_per_step;
  if (info_.valid_items > 0) {
    per_step += both / (options_.validate_every > 0 ? static_cast<double>(options_.validate_every)
                                                    : std::max(1.0, steps_in_epoch()));
  }
  if (options_.checkpoint_every > 0)
    per_step += checkpoint_seconds_ / static_cast<double>(options_.checkpoint_every);
  const double left = options_.max_minutes * 60 * kPlannedShare - seconds_now() - both;
  constexpr double kMaxSteps = 1e15;
  return static_cast<int64_t>(std::clamp(left / std::max(per_step, 1e-9), 0.0, kMaxSteps));
}

// Validations after each epoch, unless these are long or would take more than their share of the run. By
// their measured time, or without a time limit by the number of forward passes, which is the same in each
// run.
void Trainer::plan_validations(int64_t total_steps, double seconds_per_step) {
  options_.fit_validation = false;
  if (info_.valid_items == 0) return;
  double cost = (validation_seconds_ + checkpoint_seconds_) / std::max(seconds_per_step, 1e-9);  // in steps
  if (seconds_per_step == 0) {
    const double items_per_step = static_cast<double>(info_.train_items) / std::max(1.0, steps_in_epoch());
    cost = static_cast<double>(info_.valid_items) * task_->evaluation_passes() /
           (kPassesPerStep * std::max(1.0, items_per_step));
  }
  const auto steps = static_cast<double>(total_steps);
  const double epochs = steps / std::max(1.0, steps_in_epoch());
  const double affordable = std::max(1.0, std::floor(kValidationShare * steps / std::max(cost, 1e-9)));
  if (epochs >= kFewEpochs && epochs <= affordable) return;  // after each epoch
  const double wanted = std::min(affordable, std::max(kWantedValidations, epochs));
  options_.validate_every = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(steps / wanted)));
}

void Trainer::plan() {
  ScheduleReport report;
  ScheduleOptions& schedule = options_.schedule;
  int64_t steps = steps_of_other_limits();
  const bool by_time = options_.max_minutes > 0;
  if (by_time) {
    observer_->on_stage("measuring the time of a step, to plan the run");
    report = measure();
    if (stopped()) return;  // the resumed run measures again
    validation_seconds_ = report.seconds_per_validation;
    checkpoint_seconds_ = report.seconds_per_checkpoint;
  }
  // Of the limit of time; at least one, as a limit is no reason to have no model.
  const auto fitted = [&] {
    const int64_t fitting = std::max<int64_t>(1, fitting_steps(report.seconds_per_step));
    return steps == 0 ? fitting : std::min(steps, fitting);
  };
  const bool has_length = schedule.needs_total_steps() && schedule.total_steps > 0;
  int64_t total = has_length ? schedule.last_step() : by_time ? fitted() : steps;
  if (options_.fit_validation) {
    plan_validations(total, report.seconds_per_step);
    if (by_time && !has_length) total = fitted();
  }
  schedule.fit(total);
  if (schedule.needs_total_steps() && !has_length) {
    if (total <= schedule.warmup_steps) {
      throw UsageError(concat("schedule.warmup_steps: expected fewer than the run's ", total,
                              " steps, found ", schedule.warmup_steps, "; give fewer warm-up steps or more ",
                              total < steps || steps == 0 ? "minutes"
                              : options_.max_epochs > 0   ? "epochs"
                                                          : "steps"));
    }
    schedule.total_steps = total;
    options_.fit_steps = by_time;
  }
  schedule.validate();
  record_plan();
  pace_ = {.since = seconds_now(), .first = state_.steps};
  report.total_steps = total;
  report.warmup_steps = schedule.warmup_steps;
  report.validate_every = options_.validate_every;
  observer_->on_schedule(report);
}

void Trainer::refit_schedule() {
  ScheduleOptions& schedule = options_.schedule;
  const double limit = options_.max_minutes * 60, now = seconds_now();
  if (!options_.fit_steps || limit == 0 || now - pace_.since < limit * kRefitShare) return;
  const int64_t done = state_.steps, planned = schedule.last_step();
  if (done <= pace_.first || done < schedule.warmup_steps || done >= planned) return;
  const double seconds_per_step =
      (now - pace_.since - pace_.others) / static_cast<double>(done - pace_.first);
  pace_ = {.since = now, .first = done};
  int64_t steps = done + std::max<int64_t>(1, fitting_steps(seconds_per_step));
  if (const int64_t most = steps_of_other_limits(); most > 0)
    steps = std::min(steps, std::max(most, planned));
  const double change = std::abs(static_cast<double>(steps - planned));
  if (change <= std::max(1.0, kTolerated * static_cast<double>(planned - done))) return;
  schedule.refits.list.push_back({.after = done, .total_steps = steps});
  record_plan();
}

// Runs the run's own first steps, those after a warm-up, with a learning rate of 0, and then restores
// weights, optimizer and batches.
ScheduleReport Trainer::measure() {
  const auto begin = std::chrono::steady_clock::now();
  const double limit = options_.max_minutes * 60;
  std::vector<Tensor> weights;
  for (const auto& [name, parameter] : replica_->parameters())
    weights.push_back(parameter.variable.value().clone());

  int64_t steps_run = 0;
  const StepBatches* batches = nullptr;
  const auto step = [&] {
    batches = &replica_->load();
    try {
      stopped_by_rank_ = replica_->step(0, steps_run + 1, steps_run * options_.accumulate).stop;
    } catch (const NumericError&) {  // the run's own step reports it
    }
    ++steps_run;
  };

  // A warm-up's batches have other costs than the rest of the run and the validation.
  if (const int64_t warmup = replica_->feed().warmup_batches(); warmup > 0)
    replica_->restart_feed({.epoch = 0, .batch = warmup});

  ScheduleReport report;
  step();  // has costs that the others do not have: products are compiled, memory is requested
  report.seconds_per_step = seconds_since(begin);
  if (report.seconds_per_step < limit * kMeasuredShare) {
    const auto from = std::chrono::steady_clock::now();
    int64_t steps = 0;
    do {
      step();
      ++steps;
    } while (steps < kMeasuredSteps && seconds_since(from) < limit * kMeasuredShare && !stopped());
    report.seconds_per_step = seconds_since(from) / static_cast<double>(steps);
  }
  if (info_.valid_items > 0) {
    const auto from = std::chrono::steady_clock::now();
    for (const auto& batch : batches->batches) {
      nn::ForwardContext context;
      task_->loss(*batch, batches->size, context);
    }
    report.seconds_per_validation =
        seconds_since(from) / static_cast<double>(std::max<int64_t>(1, batches->size.items)) *
        static_cast<double>(info_.valid_items) * task_->evaluation_passes() / replica_->ranks();
  }
  report.seconds_per_checkpoint = time_of_a_checkpoint();

  for (size_t i = 0; i < weights.size(); ++i) {
    Variable variable = replica_->parameters()[i].parameter.variable;
    variable.set_value(weights[i]);
  }
  replica_->restart(state_.cursor);
  report.seconds = seconds_since(begin);
  return report;
}

// By writing one to a folder of its own, which RunFolder removes after a kill.
double Trainer::time_of_a_checkpoint() {
  const auto begin = std::chrono::steady_clock::now();
  const std::filesystem::path path = folder_ / concat("measured.partial-", ::getpid());
  CheckpointFolder(path).save(state_, {}, replica_->state(), 1);
  std::filesystem::remove_all(path);
  return seconds_since(begin);
}

}  // namespace qkv::train

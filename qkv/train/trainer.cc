#include "qkv/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/kernels/matmul.h"
#include "qkv/train/ranks/replica.h"

namespace qkv::train {
namespace {

// The deciding metric: the requested one, else the task's first, else the loss.
Metric deciding_metric(const Task& task, const std::string& wanted) {
  const std::vector<Metric> metrics = task.metrics();
  Metric loss{.name = "loss", .higher_is_better = false};
  if (wanted.empty()) return metrics.empty() ? loss : metrics.front();
  if (wanted == loss.name) return loss;
  std::string known = loss.name;
  for (const Metric& metric : metrics) {
    if (metric.name == wanted) return metric;
    known += ", " + metric.name;
  }
  throw UsageError(concat("train.best_by: expected one of ", known, ", found '", wanted, "'"));
}

void add(std::vector<CurveShare>& sums, const std::vector<CurveShare>& shares) {
  if (sums.empty()) {
    sums = shares;
    return;
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i].sum += shares[i].sum;
    sums[i].count += shares[i].count;
  }
}

// Sums of curves are by their place. `sums` is empty before the first batch.
void require_same_curves(const std::vector<CurveShare>& sums, const std::vector<CurveShare>& batch) {
  const auto names = [](const std::vector<CurveShare>& curves) {
    std::string list;
    for (const CurveShare& curve : curves) list += concat(list.empty() ? "" : ", ", curve.name);
    return list;
  };
  if (!sums.empty() && names(sums) != names(batch)) {
    throw UsageError(
        concat("task: expected the curves of the batches before, ", names(sums), ", found ", names(batch)));
  }
}

TrainOptions validated(TrainOptions options) {
  if (options.schedule.total_steps == 0 && options.max_minutes == 0)
    options.schedule.total_steps = options.max_steps;
  options.validate();
  return options;
}

// A run may be wanted for its numbers, and one that is resumed elsewhere must have the same settings.
void note_slow_precision(const TrainOptions& options) {
  if (options.precision != DType::bf16 || kernels::has_fast_bf16(options.device)) return;
  log_info("train.precision = bf16: this processor has no instructions for bf16 products: f32 is faster");
}

std::unique_ptr<Task> required(std::unique_ptr<Task> task) {
  if (!task) throw UsageError("trainer: expected a task, found none");
  return task;
}

double mean(const CurveShare& share) { return share.sum / std::max(share.count, 1e-300); }

}  // namespace

std::optional<double> StepReport::curve(const std::string& name) const {
  for (const auto& [own, value] : curves) {
    if (own == name) return value;
  }
  return std::nullopt;
}

Trainer::Trainer(std::unique_ptr<Task> task, const TrainOptions& options, const std::filesystem::path& folder,
                 IfRunExists existing)
    : Trainer{required(std::move(task)), validated(options), RunFolder(folder, existing)} {}

Trainer::Trainer(std::unique_ptr<Task> task, const TrainOptions& options, RunFolder folder,
                 Communicator& ranks)
    : task_(required(std::move(task))),
      options_(validated(options)),
      run_folder_(std::move(folder)),
      folder_(run_folder_.path()),
      info_(task_->info()),
      best_by_(deciding_metric(*task_, options_.best_by)),
      replica_(std::make_unique<Replica>(*task_, options_, ranks)),
      checkpoints_(folder_ / "checkpoints") {
  run_folder_.require_there();  // not one that was moved from, whose path is the current folder
  if (options_.patience > 0 && info_.valid_items == 0) {
    throw UsageError(concat("train.patience: expected 0 without validation data, found ", options_.patience));
  }
  note_slow_precision(options_);
  adopt_plan();
  // Settings in which a resumed run must agree with the checkpoint.
  fields_.push_back({"task", info_.name});
  for (Field& field : task_->fields()) fields_.push_back(std::move(field));
  for (Field& field : fields(options_)) fields_.push_back(std::move(field));
  record_plan();

  if (const std::optional<Checkpoint> checkpoint = run_folder_.take_checkpoint()) {
    require_same_fields(checkpoint->fields);
    resume(*checkpoint);
    remove_old_snapshots();
  } else {
    replica_->start(nullptr, state_.cursor);
  }
}

Trainer::~Trainer() = default;

void Trainer::end() { replica_->end(); }

// Old files stay until every check has passed: an old model remains if the new run cannot start.
void Trainer::begin_new_run() {
  run_folder_.require_there();
  run_folder_.keep();
  with_io_errors([&] {
    std::filesystem::remove_all(checkpoints_.path());
    // An old model must not remain beside files of the new one.
    for (const char* name : kModelFiles) std::filesystem::remove(folder_ / name);
  });
  remove_old_snapshots();
  task_->begin(folder_);
  log_ = std::make_unique<RunLog>(folder_);
}

void Trainer::resume(const Checkpoint& checkpoint) {
  state_ = checkpoint.state;
  replica_->start(&checkpoint, state_.cursor);
  saved_step_ = state_.steps;
  put_best_model_back();
  // A run that ended between saving a checkpoint and removing an old one.
  checkpoints_.remove_old(state_.steps, options_.keep_checkpoints);
  log_ = std::make_unique<RunLog>(folder_, state_.logs, state_.steps);
}

void Trainer::require_same_fields(const Fields& saved) const {
  const auto require = [&](const Field& field) {
    const auto found = saved.find(field.name);
    if (found != saved.end() && found->second == field.value) return;
    // A setting that is off, and that the version which wrote the checkpoint did not have.
    if (found == saved.end() && (field.value.empty() || field.value == "false" || field.value == "0")) return;
    // A run that was stopped before it had a plan.
    if (field.name == "schedule.total_steps" && found != saved.end() && found->second == "0") return;
    // Validation data that were added or removed: no two values of different data are compared.
    const bool of_validation = field.name == "valid.fingerprint";
    if (of_validation && (field.value == "0" || (found != saved.end() && found->second == "0"))) return;
    if (field.name.ends_with(".fingerprint")) {
      const bool of_base = field.name == "base.fingerprint";  // of LoRA
      throw UsageError(concat("resume: ", field.name, ": the ",
                              of_base         ? "base model is not that"
                              : of_validation ? "validation data are not those"
                                              : "data are not those",
                              " of the checkpoint"));
    }
    throw UsageError(concat("resume: ", field.name, ": expected ",
                            found == saved.end() ? std::string("none") : found->second,
                            " as in the checkpoint, found ", field.value));
  };
  // A differing setting is a better explanation than a differing fingerprint.
  for (const bool fingerprints : {false, true}) {
    for (const Field& field : fields_) {
      if (field.decides_weights && field.name.ends_with(".fingerprint") == fingerprints) require(field);
    }
  }
}

TrainResult Trainer::run(TrainObserver& observer, const std::atomic<bool>* stop) {
  observer_ = &observer;
  stop_ = stop;
  result_ = {};
  stopped_by_rank_ = false;
  started_ = std::chrono::steady_clock::now();
  seconds_before_ = saved_seconds_ = state_.seconds;
  first_step_ = state_.steps;
  first_progress_ =
      static_cast<double>(state_.cursor.epoch) +
      static_cast<double>(state_.cursor.batch) / static_cast<double>(replica_->feed().batches_in_epoch());
  observer.on_start({.task = info_,
                     .parameters = nn::count_parameters(*task_),
                     .batches_in_epoch = replica_->feed().batches_in_epoch(),
                     .resumed_from = state_.steps});
  pace_ = {.since = seconds_now(), .first = state_.steps};
  if (needs_plan() && !stopped()) plan();
  if (!log_) begin_new_run();

  std::optional<StopReason> reason;
  bool warned_past_schedule = false;
  while (!reason) {
    if (stopped()) {
      reason = StopReason::requested;
    } else if (state_.validation_due) {
      // The validation may export a model: if the run ends after that, there must be a checkpoint to resume
      // from.
      if (saved_step_ < 0) save_checkpoint();
      if (validate(true)) save_checkpoint();
    } else if (reason = limit_reached(); !reason) {
      if (outlasts_schedule() && !warned_past_schedule) {
        warned_past_schedule = true;
        log_warning(concat("step ", state_.steps + 1, ": the schedule has ended at step ",
                           options_.schedule.last_step(), ": the learning rate stays ",
                           learning_rate(options_.schedule, state_.steps + 1),
                           options_.schedule.minimum > 0 ? "" : ", with which the weights do not change"));
      }
      const int64_t epoch = state_.cursor.epoch;
      train_step();
      refit_schedule();
      state_.validation_due = info_.valid_items > 0 && validation_falls_due(epoch);
      if (!state_.validation_due && checkpoint_falls_due()) save_checkpoint();
    }
  }
  const bool validates =
      reason != StopReason::requested && info_.valid_items > 0 && state_.validated_step != state_.steps;
  const bool fitted = validates && fit_sample(false);
  if (saved_step_ != state_.steps || fitted) save_checkpoint();
  // The final weights are validated too. The checkpoint does not record this: a run resumed from it must
  // equal an uninterrupted one, so that a run that has ended validates them again.
  if (validates && !validate(false)) reason = StopReason::requested;
  log_->flush();

  result_.reason = *reason;
  result_.steps = state_.steps;
  result_.epochs = state_.cursor.epoch;
  result_.seconds = seconds_now();
  result_.schedule_steps = options_.schedule.needs_total_steps() ? options_.schedule.last_step() : 0;
  if (state_.steps > first_step_) result_.train_loss = mean(step_loss_);
  result_.best_by = best_by_;
  result_.best = state_.best;
  result_.best_step = state_.best.empty() ? state_.steps : state_.best_step;
  return result_;
}

void Trainer::train_step() {
  const StepBatches& step = replica_->load();
  for (const auto& batch : step.batches) observer_->on_batch(*batch);
  const double before = seconds_now();
  const double rate = learning_rate(options_.schedule, state_.steps + 1);
  StepResult result;
  try {
    result = replica_->step(rate, state_.steps + 1, state_.micro_steps);
  } catch (const NumericError& error) {
    fail_not_finite(error.what());
  }
  step_loss_ = {};
  for (const std::vector<CurveShare>& curves : result.curves) {
    require_same_curves(state_.window.curves, curves);
    add(state_.window.curves, curves);
    step_loss_.sum += curves.front().sum;
    step_loss_.count += curves.front().count;
  }
  stopped_by_rank_ = result.stop;
  state_.micro_steps += std::ssize(step.batches);
  ++state_.steps;
  state_.cursor = step.after;
  TrainState::Window& window = state_.window;
  if (result.exchange.bytes_sent > 0) {
    if (!exchange_) exchange_ = {.steps = 0};
    exchange_->bytes_sent += result.exchange.bytes_sent;
    exchange_->gradients += result.exchange.gradients;
    exchange_->gradients_hidden += result.exchange.gradients_hidden;
    exchange_->weights += result.exchange.weights;
    exchange_->weights_hidden += result.exchange.weights_hidden;
    exchange_->waited += result.exchange.waited;
    ++exchange_->steps;
  }
  ++window.steps;
  window.units += step.size.units;
  window.gradient_norm += result.gradient_norm;
  window.seconds += seconds_now() - before;

  const StepReport report = report_step(rate);
  if (window.steps >= options_.log_every) {
    log_->add(report, info_.units);
    state_.window = {};
    exchange_.reset();
  }
  observer_->on_step(report);
}

void Trainer::fail_not_finite(const std::string& what) const {
  const std::string weight = nn::first_non_finite(replica_->parameters());
  throw NumericError(concat(what, weight.empty() ? "" : "; the weights of " + weight + " are not finite",
                            saved_step_ < 0 ? std::string("; there is no checkpoint yet")
                                            : concat("; the checkpoint of step ", saved_step_, " remains")));
}

StepReport Trainer::report_step(double rate) {
  const TrainState::Window& window = state_.window;
  const double steps = static_cast<double>(window.steps);
  // The cursor is at the next batch, of the next epoch if this step has ended one.
  const bool ended = state_.cursor.batch == 0;
  const double progress =
      static_cast<double>(state_.cursor.batch) / static_cast<double>(replica_->feed().batches_in_epoch());
  StepReport report{.step = state_.steps,
                    .epoch = state_.cursor.epoch + (ended ? 0 : 1),
                    .epoch_progress = ended ? 1 : progress,
                    .loss = mean(window.curves.at(0)),
                    .curves = {},
                    .gradient_norm = window.gradient_norm / steps,
                    .learning_rate = rate,
                    .units_per_second = static_cast<double>(window.units) / std::max(window.seconds, 1e-9),
                    .seconds = seconds_now(),
                    .seconds_left = std::nullopt,
                    .exchange = exchange_};
  for (const CurveShare& curve : window.curves) {
    if (curve.count > 0) report.curves.emplace_back(curve.name, mean(curve));
  }
  const double spent = report.seconds - seconds_before_;
  const auto left = [&report](double seconds) {
    report.seconds_left = std::max(0.0, std::min(report.seconds_left.value_or(seconds), seconds));
  };
  if (options_.max_minutes > 0) left(options_.max_minutes * 60 - report.seconds);
  if (const int64_t last = options_.last_step(); last > 0) {
    left(spent * static_cast<double>(last - state_.steps) / static_cast<double>(state_.steps - first_step_));
  }
  const double epochs = static_cast<double>(state_.cursor.epoch) + progress;
  if (options_.max_epochs > 0 && epochs > first_progress_) {
    left(spent * (static_cast<double>(options_.max_epochs) - epochs) / (epochs - first_progress_));
  }
  return report;
}

std::optional<StopReason> Trainer::limit_reached() const {
  if (options_.patience > 0 && state_.validations_since_best >= options_.patience)
    return StopReason::no_improvement;
  if (options_.max_steps > 0 && state_.steps >= options_.max_steps) return StopReason::max_steps;
  if (options_.max_epochs > 0 && state_.cursor.epoch >= options_.max_epochs) return StopReason::max_epochs;
  if (const int64_t last = options_.last_step(); last > 0 && state_.steps >= last)
    return StopReason::schedule_end;
  if (options_.max_minutes > 0) {
    const double left = options_.max_minutes * 60 - seconds_now();
    if (left <= (state_.steps > first_step_ ? seconds_at_the_end() : 0)) return StopReason::max_minutes;
  }
  return std::nullopt;
}

bool Trainer::outlasts_schedule() const {
  const ScheduleOptions& schedule = options_.schedule;
  if (!schedule.needs_total_steps() || schedule.last_step() == 0) return false;
  // Epochs differ by a few batches, and the length of a schedule that epochs fixed is that of the first.
  const int64_t tolerated = options_.max_epochs > 0 ? schedule.last_step() / 100 : 0;
  return state_.steps >= schedule.last_step() + tolerated;
}

bool Trainer::validation_falls_due(int64_t epoch_before) const {
  if (options_.validate_every > 0) return state_.steps % options_.validate_every == 0;
  return state_.cursor.epoch > epoch_before;
}

bool Trainer::checkpoint_falls_due() const {
  if (options_.checkpoint_every > 0 && state_.steps % options_.checkpoint_every == 0) return true;
  return options_.checkpoint_minutes > 0 &&
         seconds_now() - saved_seconds_ >= options_.checkpoint_minutes * 60;
}

double Trainer::seconds_now() const {
  return seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

const char* describe(StopReason reason) {
  switch (reason) {
    case StopReason::max_epochs:
      return "the limit of epochs was reached";
    case StopReason::max_steps:
      return "the limit of steps was reached";
    case StopReason::max_minutes:
      return "the limit of minutes was reached";
    case StopReason::schedule_end:
      return "the schedule has ended";
    case StopReason::no_improvement:
      return "validation has stopped improving";
    case StopReason::requested:
      return "a stop was requested";
  }
  return "";
}

}  // namespace qkv::train

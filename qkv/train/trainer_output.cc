// The trainer's outputs: validations, checkpoints, and the model folder.

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "qkv/base/files.h"
#include "qkv/nn/weights_file.h"
#include "qkv/ops/profile.h"
#include "qkv/tensor/storage.h"
#include "qkv/train/average.h"
#include "qkv/train/ranks/replica.h"
#include "qkv/train/trainer.h"

namespace qkv::train {

namespace {

constexpr const char* kBestModel = "best-model";

}  // namespace

class Trainer::EvaluatedWeights {
 public:
  explicit EvaluatedWeights(Trainer& trainer) : parameters_(trainer.replica_->parameters()) {
    const std::vector<Tensor> others = trainer.evaluated_weights();
    trained_.reserve(others.size());
    for (size_t i = 0; i < others.size(); ++i) {
      Variable variable = parameters_[i].parameter.variable;
      trained_.push_back(variable.value());
      variable.set_value(others[i]);
    }
  }
  ~EvaluatedWeights() {
    for (size_t i = 0; i < trained_.size(); ++i) {
      Variable variable = parameters_[i].parameter.variable;
      variable.set_value(trained_[i]);
    }
  }
  bool replaced() const { return !trained_.empty(); }
  EvaluatedWeights(const EvaluatedWeights&) = delete;
  EvaluatedWeights& operator=(const EvaluatedWeights&) = delete;

 private:
  const std::vector<nn::NamedParameter>& parameters_;
  std::vector<Tensor> trained_;  // empty if those are evaluated themselves
};

std::vector<Tensor> Trainer::evaluated_weights() {
  if (replica_->optimizer().averages()) return replica_->averages();
  std::vector<Tensor> weights;
  if (options_.average_last < 2) return weights;
  make_writable_folder(folder_ / "snapshots");
  nn::save_weights(snapshot_file(state_.steps), replica_->parameters());
  std::vector<std::filesystem::path> files;
  for (const int64_t step : state_.snapshots) {
    if (step != state_.steps) files.push_back(snapshot_file(step));
  }
  files.push_back(snapshot_file(state_.steps));
  weights = average_weights(files, replica_->parameters());
  for (Tensor& one : weights) one = from_host(one, options_.device);
  return weights;
}

bool Trainer::is_best(const Evaluation& evaluation, double value) const {
  if (state_.best.empty()) return true;
  const auto found = state_.best.find(best_by_.name);
  if (found == state_.best.end()) return true;  // another metric decided before
  if (value == found->second) return evaluation.loss < state_.best.at("loss");
  return best_by_.higher_is_better ? value > found->second : value < found->second;
}

EvaluationRequest Trainer::evaluation_request(bool scheduled) const {
  return {.number = state_.validations,
          .scheduled = scheduled,
          .stop = stop_,
          .items = options_.samples.at(state_.steps)};
}

bool Trainer::fit_sample(bool scheduled) {
  if (options_.max_minutes == 0 || options_.samples.at(state_.steps) > 0) return false;
  const double seconds = kValidationShare * options_.max_minutes * 60;  // of all ranks
  const std::vector<ValidationReport>& before = result_.validations;
  if (!before.empty() && before.back().evaluation.extent.empty() && before.back().seconds <= seconds)
    return false;
  const EvaluatedWeights weights(*this);
  const int64_t items = task_->items_within(seconds * replica_->ranks(), evaluation_request(scheduled));
  if (items == 0) return false;
  options_.samples.list.emplace_back(state_.steps, items);
  record_plan();
  return true;
}

bool Trainer::validate(bool scheduled) {
  const ProfileScope profile = ProfileScope::whole("validation");
  const double before = seconds_now();
  run_folder_.require_there();
  if (scheduled) fit_sample(scheduled);
  const EvaluatedWeights weights(*this);
  const std::optional<Evaluation> found =
      replica_->evaluate(evaluation_request(scheduled), weights.replaced());
  if (!found) {
    stopped_by_rank_ = true;  // or by this one
    return false;
  }
  if (!std::isfinite(found->loss))
    fail_not_finite(concat("step ", state_.steps, ": the validation loss is ", found->loss));

  const std::optional<double> value = found->value(best_by_.name);
  const bool best = value && is_best(*found, *value);
  if (best) {
    if (!scheduled && !state_.best.empty()) set_best_model_aside();
    export_model();
    state_.best = found->metrics;
    state_.best["loss"] = found->loss;
    state_.best_step = state_.steps;
    state_.validations_since_best = 0;
  } else if (value) {
    ++state_.validations_since_best;
  }
  if (scheduled) {
    state_.validation_due = false;
    state_.validated_step = state_.steps;
    ++state_.validations;
    if (options_.average_last > 0) {
      state_.snapshots.push_back(state_.steps);
      if (std::ssize(state_.snapshots) >= options_.average_last)
        state_.snapshots.erase(state_.snapshots.begin());
    }
  }
  const double now = seconds_now();
  validation_seconds_ = now - before;
  pace_.others += validation_seconds_;
  const ValidationReport report{.step = state_.steps,
                                .epoch = state_.cursor.epoch + (state_.cursor.batch > 0 ? 1 : 0),
                                .evaluation = *found,
                                .best = best,
                                .seconds = validation_seconds_,
                                .run_seconds = now};
  log_->add(report);
  log_->flush();
  result_.validations.push_back(report);
  observer_->on_validation(report);
  return true;
}

// The proof of the exported folder maps its weights. Without the cached activations of the steps, it does not
// raise the peak of memory.
void Trainer::export_model() {
  run_folder_.require_there();
  release_cached_memory();
  task_->export_model(folder_);
}

void Trainer::save_checkpoint() {
  const ProfileScope profile = ProfileScope::whole("checkpoint");
  if (const std::string bad = nn::first_non_finite(replica_->parameters()); !bad.empty())
    fail_not_finite(concat("step ", state_.steps, ": the weights are not finite"));
  run_folder_.require_there();
  const double before = state_.seconds = seconds_now();
  Fields saved;
  for (const Field& field : fields_) saved[field.name] = field.value;
  state_.logs = log_->save();
  observer_->before_checkpoint(state_.steps);
  checkpoints_.save(state_, saved, replica_->state(), options_.keep_checkpoints);
  run_folder_.forget_record();
  saved_step_ = state_.steps;
  saved_seconds_ = before;
  checkpoint_seconds_ = seconds_now() - before;
  pace_.others += checkpoint_seconds_;
  // Without a best model, the folder has the latest one.
  if (state_.best.empty()) {
    const EvaluatedWeights weights(*this);
    export_model();
  }
  remove_old_snapshots();
  observer_->on_checkpoint(state_.steps);
}

// The final validation of a run is not part of a resumed run's state: its model may replace the best one of
// the scheduled validations, which a longer run would keep. That one is kept in a folder beside the
// checkpoints, as links if the file system supports them.
void Trainer::set_best_model_aside() const {
  const std::filesystem::path aside = checkpoints_.path() / kBestModel;
  const std::filesystem::path partial = concat(aside.string(), ".partial-", ::getpid());
  with_io_errors([&] {
    std::filesystem::remove_all(aside);
    std::filesystem::remove_all(partial);
    std::filesystem::create_directories(partial);
    for (const char* name : kModelFiles) {
      if (!std::filesystem::exists(folder_ / name)) continue;
      std::error_code refused;
      std::filesystem::create_hard_link(folder_ / name, partial / name, refused);
      if (refused) std::filesystem::copy_file(folder_ / name, partial / name);
    }
    std::filesystem::rename(partial, aside);
  });
  flush_folder(checkpoints_.path());
}

void Trainer::put_best_model_back() const {
  const std::filesystem::path aside = checkpoints_.path() / kBestModel;
  with_io_errors([&] {
    for (const char* name : kModelFiles) {
      if (std::filesystem::exists(aside / name)) std::filesystem::rename(aside / name, folder_ / name);
    }
    std::filesystem::remove_all(aside);
  });
}

std::filesystem::path Trainer::snapshot_file(int64_t step) const {
  return folder_ / "snapshots" / concat("step-", step, ".safetensors");
}

// Each checkpoint keeps its own snapshots, because the newest may turn out to be damaged.
void Trainer::remove_old_snapshots() const {
  std::set<int64_t> steps = checkpoints_.snapshots();
  steps.insert(state_.snapshots.begin(), state_.snapshots.end());
  std::set<std::filesystem::path> needed;
  for (const int64_t step : steps) needed.insert(snapshot_file(step).filename());
  for (const std::filesystem::path& path : files_in(folder_ / "snapshots")) {
    std::error_code ignored;
    if (!needed.contains(path.filename())) std::filesystem::remove(path, ignored);
  }
}

}  // namespace qkv::train

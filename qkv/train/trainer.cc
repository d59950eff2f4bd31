#include "qkv/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/ops/profile.h"
#include "qkv/ops/tape.h"

namespace qkv::train {
namespace {

Ragged ragged(const data::TokenRows& rows) {
  return {Tensor::from(rows.ids, {rows.tokens()}), Offsets(rows.offsets)};
}

}  // namespace

Trainer::Trainer(const models::TransformerConfig& config, const TrainOptions& options,
                 const TrainerInputs& inputs, IfRunExists existing)
    : options_(options),
      inputs_(inputs),
      special_(data::special_ids(inputs.tokenizer)),
      checkpoints_(inputs.folder / "checkpoints") {
  options_.schedule.d_model = config.d_model;
  if (options_.schedule.total_steps == 0) options_.schedule.total_steps = options_.max_steps;
  options_.validate();
  config.validate();
  make_writable_folder(inputs_.folder);
  lock_ = std::make_unique<FolderLock>(inputs_.folder);

  // What a resumed run must have in common with the checkpoint.
  for (const auto& [name, value] : models::fields(config)) fields_[name] = value;
  TrainOptions deciding = options_;
  if (deciding.schedule.kind != ScheduleKind::cosine)
    deciding.schedule.total_steps = 0;  // it has no say then
  for (const auto& [name, value] : fields(deciding)) fields_[name] = value;
  fields_["training data"] = std::to_string(inputs_.train.fingerprint());

  checkpoints_.remove_partial_files();
  require_fitting_folder(inputs_.folder, existing);
  std::optional<Checkpoint> checkpoint;
  if (existing == IfRunExists::resume) checkpoint = checkpoints_.load_latest();
  if (checkpoint) require_same_options(checkpoint->fields);

  model_ = std::make_unique<models::Transformer>(config);
  nn::initialise(*model_, options_.seed);
  optim::OptimizerOptions common = options_.optimizer;
  common.groups.push_back(optim::no_decay_of_vectors());
  adam_ = std::make_unique<optim::AdamW>(*model_, options_.adam, common);
  data::BatchCursor cursor(
      inputs_.train,
      {.max_tokens = options_.batch_tokens, .window = options_.sort_window, .seed = options_.seed},
      checkpoint ? checkpoint->state.cursor : data::CursorState{});
  if (checkpoint) {
    resume(*checkpoint);
  } else {
    start_anew();
  }
  remove_old_snapshots();
  feed_ = std::make_unique<Prefetcher>(inputs_.train, std::move(cursor), special_, options_.accumulate);
}

void Trainer::start_anew() {
  std::filesystem::remove_all(inputs_.folder / "checkpoints");
  std::filesystem::remove_all(inputs_.folder / "runs");
  // An old model must not be found beside the new tokenizer.
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"})
    std::filesystem::remove(inputs_.folder / name);
  inputs_.tokenizer.save(inputs_.folder);
  events_ = std::make_unique<io::EventWriter>(inputs_.folder / "runs");
}

void Trainer::resume(const Checkpoint& checkpoint) {
  for (const auto& [name, parameter] : adam_->parameters()) {
    parameter.variable.value().copy_from(checkpoint.file.tensor("weights/" + name, parameter.shape));
    Variable variable = parameter.variable;
    variable.mark_modified();
  }
  state_ = checkpoint.state;
  adam_->restore(checkpoint.file);
  saved_step_ = state_.steps;
  events_ = std::make_unique<io::EventWriter>(inputs_.folder / "runs", state_.steps + 1);
}

void Trainer::require_same_options(const Fields& saved) const {
  for (const auto& [name, value] : fields_) {
    if (may_change(name)) continue;
    const auto found = saved.find(name);
    if (found != saved.end() && found->second == value) continue;
    throw UsageError(concat("resume: ", name, ": expected ",
                            found == saved.end() ? std::string("none") : found->second,
                            " as in the checkpoint, found ", value));
  }
}

TrainResult Trainer::run(TrainObserver& observer, const std::atomic<bool>* stop) {
  observer_ = &observer;
  stop_ = stop;
  result_ = {};
  started_ = std::chrono::steady_clock::now();
  seconds_before_ = saved_seconds_ = state_.seconds;
  first_step_ = state_.steps;
  first_progress_ = static_cast<double>(state_.cursor.epoch) +
                    static_cast<double>(state_.cursor.batch) / static_cast<double>(feed_->batches_in_epoch());
  observer.on_start({.parameters = nn::count_parameters(*model_),
                     .train_pairs = inputs_.train.pairs(),
                     .valid_pairs = inputs_.valid ? inputs_.valid->store.pairs() : 0,
                     .source_vocabulary = model_->config().source_vocabulary,
                     .target_vocabulary = model_->config().target_vocabulary,
                     .batches_in_epoch = feed_->batches_in_epoch(),
                     .resumed_from = state_.steps});

  std::optional<StopReason> reason;
  while (!reason) {
    if (stop_ && *stop_) {
      reason = StopReason::requested;
    } else if (state_.validation_due) {
      if (validate(true)) save_checkpoint();
    } else if (reason = limit_reached(); !reason) {
      const int64_t epoch = state_.cursor.epoch;
      train_step();
      state_.validation_due = inputs_.valid && validation_falls_due(epoch);
      if (!state_.validation_due && checkpoint_falls_due()) save_checkpoint();
    }
  }
  if (saved_step_ != state_.steps) save_checkpoint();
  // The last weights get their chance too. The checkpoint does not know of it: a run that goes on from there
  // has to be as if it had never stopped.
  const int64_t validated = result_.last_validation ? result_.last_validation->step : first_step_;
  if (reason != StopReason::requested && inputs_.valid && validated != state_.steps) validate(false);
  events_->flush();

  result_.reason = *reason;
  result_.steps = state_.steps;
  result_.epochs = state_.cursor.epoch;
  result_.seconds = seconds_now();
  result_.train_loss = last_loss_;
  result_.best_score = state_.best_score;
  result_.best_step = state_.best_score ? state_.best_step : state_.steps;
  return result_;
}

void Trainer::train_step() {
  const StepBatches batches = [this] {
    const ProfileScope profile("data");
    return feed_->next();
  }();
  for (const data::TranslationRows& rows : batches.rows) observer_->on_batch(rows);
  const double before = seconds_now();
  const double loss_before = state_.window.loss;
  for (const data::TranslationRows& rows : batches.rows)
    run_batch(rows, 1.0f / static_cast<float>(batches.labels));

  const double rate = learning_rate(options_.schedule, state_.steps + 1);
  double norm = 0;
  try {
    norm = adam_->step(rate);
  } catch (const NumericError& error) {
    fail_not_finite(error.what());
  }
  ++state_.steps;
  state_.cursor = batches.after;
  last_loss_ = (state_.window.loss - loss_before) / static_cast<double>(batches.labels);
  TrainState::Window& window = state_.window;
  ++window.steps;
  window.tokens += batches.tokens;
  window.labels += batches.labels;
  window.gradient_norm += norm;
  window.seconds += seconds_now() - before;

  const StepReport report = report_step(rate);
  if (window.steps >= options_.log_every) log_window(report);
  observer_->on_step(report);
}

void Trainer::run_batch(const data::TranslationRows& rows, float factor) {
  ++state_.micro_steps;
  nn::ForwardContext context;
  context.training = true;
  context.recompute = options_.recompute;
  context.seed = options_.seed;
  context.step = static_cast<uint32_t>(state_.micro_steps);

  Tape tape;
  const nn::Memory memory = model_->encode(ragged(rows.source), context);
  const Variable hidden = model_->decode(ragged(rows.decoder_input), memory, context);
  const CrossEntropyResult result = linear_cross_entropy(
      hidden, model_->output_projection(), Tensor::from(rows.labels.ids, {rows.labels.tokens()}),
      {.label_smoothing = options_.label_smoothing, .factor = factor});
  if (!std::isfinite(result.loss_sum)) {
    const std::string where = tape.first_non_finite().value_or("the output projection's logits");
    fail_not_finite(concat("step ", state_.steps + 1, ": the loss is ",
                           std::isnan(result.loss_sum) ? "NaN" : "infinite", ", first seen in ", where));
  }
  tape.backward(result.loss);
  state_.window.loss += result.loss_sum;
  state_.window.nll += result.nll_sum;
}

void Trainer::fail_not_finite(const std::string& what) const {
  const std::string weight = nn::first_non_finite(adam_->parameters());
  throw NumericError(concat(what, weight.empty() ? "" : "; the weights of " + weight + " are not finite",
                            saved_step_ < 0 ? std::string("; there is no checkpoint yet")
                                            : concat("; the checkpoint of step ", saved_step_, " remains")));
}

StepReport Trainer::report_step(double rate) {
  const TrainState::Window& window = state_.window;
  const double labels = static_cast<double>(window.labels), steps = static_cast<double>(window.steps);
  StepReport report{.step = state_.steps,
                    .epoch = state_.cursor.epoch + 1,
                    .epoch_progress = static_cast<double>(state_.cursor.batch) /
                                      static_cast<double>(feed_->batches_in_epoch()),
                    .loss = window.loss / labels,
                    .nll = window.nll / labels,
                    .gradient_norm = window.gradient_norm / steps,
                    .learning_rate = rate,
                    .tokens_per_second = static_cast<double>(window.tokens) / std::max(window.seconds, 1e-9),
                    .seconds = seconds_now(),
                    .seconds_left = std::nullopt};
  const double spent = report.seconds - seconds_before_;
  const auto left = [&report](double seconds) {
    report.seconds_left = std::max(0.0, std::min(report.seconds_left.value_or(seconds), seconds));
  };
  if (options_.max_minutes > 0) left(options_.max_minutes * 60 - report.seconds);
  if (options_.max_steps > 0) {
    left(spent * static_cast<double>(options_.max_steps - state_.steps) /
         static_cast<double>(state_.steps - first_step_));
  }
  const double epochs = static_cast<double>(state_.cursor.epoch) + report.epoch_progress;
  if (options_.max_epochs > 0 && epochs > first_progress_) {
    left(spent * (static_cast<double>(options_.max_epochs) - epochs) / (epochs - first_progress_));
  }
  return report;
}

void Trainer::log_window(const StepReport& report) {
  events_->scalar("train/loss", report.loss, report.step);
  events_->scalar("train/nll", report.nll, report.step);
  events_->scalar("train/learning_rate", report.learning_rate, report.step);
  events_->scalar("train/gradient_norm", report.gradient_norm, report.step);
  events_->scalar("train/tokens_per_second", report.tokens_per_second, report.step);
  state_.window = {};
}

std::optional<StopReason> Trainer::limit_reached() const {
  if (options_.patience > 0 && state_.validations_since_best >= options_.patience)
    return StopReason::no_improvement;
  if (options_.max_steps > 0 && state_.steps >= options_.max_steps) return StopReason::max_steps;
  if (options_.max_epochs > 0 && state_.cursor.epoch >= options_.max_epochs) return StopReason::max_epochs;
  if (options_.max_minutes > 0 && seconds_now() >= options_.max_minutes * 60) return StopReason::max_minutes;
  return std::nullopt;
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

void require_fitting_folder(const std::filesystem::path& folder, IfRunExists existing) {
  const bool checkpoints = !CheckpointFolder(folder / "checkpoints").empty();
  const bool model = std::filesystem::exists(folder / "config.json");
  if (existing == IfRunExists::refuse && (checkpoints || model)) {
    throw UsageError(concat(folder.string(),
                            ": holds a model or a training run already; resume it, replace it, "
                            "or choose another folder"));
  }
  if (existing == IfRunExists::resume && model && !checkpoints) {
    throw UsageError(concat(folder.string(), ": expected checkpoints to resume from, found a model alone"));
  }
}

const char* describe(StopReason reason) {
  switch (reason) {
    case StopReason::max_epochs:
      return "the limit of epochs was reached";
    case StopReason::max_steps:
      return "the limit of steps was reached";
    case StopReason::max_minutes:
      return "the limit of minutes was reached";
    case StopReason::no_improvement:
      return "validation has stopped improving";
    case StopReason::requested:
      return "it was asked to stop";
  }
  return "";
}

models::TransformerConfig complete_config(models::TransformerConfig config,
                                          const text::MarianTokenizer& tokenizer) {
  if (config.shares_embeddings() && tokenizer.separate_vocabularies()) {
    throw UsageError(
        "tying: expected two_way or none with separate source and target vocabularies, found three_way");
  }
  config.source_vocabulary = tokenizer.size(text::Side::source);
  config.target_vocabulary = tokenizer.size(text::Side::target);
  config.eos_id = tokenizer.eos_id();
  config.pad_id = config.decoder_start_id = tokenizer.pad_id();
  config.validate();
  return config;
}

}  // namespace qkv::train

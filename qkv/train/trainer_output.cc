// What a trainer makes besides better weights: judgements of them, checkpoints, and the model folder.

#include <algorithm>
#include <cmath>

#include "qkv/models/hub/pretrained.h"
#include "qkv/nn/weights_file.h"
#include "qkv/ops/profile.h"
#include "qkv/train/average.h"
#include "qkv/train/trainer.h"

namespace qkv::train {

bool Trainer::validate(bool scheduled) {
  const ProfileScope profile = ProfileScope::whole("validation");
  const double before = seconds_now();
  const models::Transformer& model = evaluated_model();
  const std::optional<double> nll =
      mean_nll(model, inputs_.valid->store, special_, options_.batch_tokens, stop_);
  if (!nll) return false;
  if (!std::isfinite(*nll)) fail_not_finite(concat("step ", state_.steps, ": the validation loss is ", *nll));
  std::optional<double> bleu;
  const bool with_bleu =
      options_.bleu_every > 0 && (!scheduled || (state_.validations + 1) % options_.bleu_every == 0);
  if (with_bleu) {
    bleu = translation_bleu(model, inputs_.tokenizer, *inputs_.valid,
                            {.sentences = options_.bleu_sentences,
                             .beam = options_.bleu_beam,
                             .batch_tokens = options_.batch_tokens},
                            stop_);
    if (!bleu) return false;
  }

  const bool by_loss = options_.best_by == EarlyStopMetric::loss || options_.bleu_every == 0;
  const std::optional<double> score = by_loss ? std::optional(-*nll) : bleu;
  const bool best = score && (!state_.best_score || *score > *state_.best_score);
  if (best) export_model(model);
  if (best) {
    state_.best_score = score;
    state_.best_step = state_.steps;
    state_.validations_since_best = 0;
  } else if (score) {
    ++state_.validations_since_best;
  }
  if (scheduled) {
    state_.validation_due = false;
    ++state_.validations;
    if (options_.average_last > 0) {
      state_.snapshots.push_back(state_.steps);
      if (std::ssize(state_.snapshots) >= options_.average_last)
        state_.snapshots.erase(state_.snapshots.begin());
    }
  }

  const double now = seconds_now();
  const ValidationReport report{.step = state_.steps,
                                .epoch = state_.cursor.epoch + (state_.cursor.batch > 0 ? 1 : 0),
                                .loss = *nll,
                                .perplexity = std::exp(*nll),
                                .bleu = bleu,
                                .best = best,
                                .seconds = now - before,
                                .run_seconds = now};
  events_->scalar("valid/loss", report.loss, report.step);
  events_->scalar("valid/perplexity", report.perplexity, report.step);
  if (bleu) events_->scalar("valid/bleu", *bleu, report.step);
  events_->flush();
  result_.last_validation = report;
  observer_->on_validation(report);
  return true;
}

void Trainer::save_checkpoint() {
  const ProfileScope profile = ProfileScope::whole("checkpoint");
  if (const std::string bad = nn::first_non_finite(adam_->parameters()); !bad.empty())
    fail_not_finite(concat("step ", state_.steps, ": the weights are not finite"));
  state_.seconds = seconds_now();
  std::vector<io::NamedTensor> tensors = adam_->state();
  for (const auto& [name, parameter] : adam_->parameters())
    tensors.push_back({"weights/" + name, parameter.variable.value()});
  checkpoints_.save(state_, fields_, tensors, options_.keep_checkpoints);
  saved_step_ = state_.steps;
  saved_seconds_ = state_.seconds;
  // Until there is a best model, the latest one is what the folder offers.
  if (!state_.best_score) export_model(evaluated_model());
  remove_old_snapshots();
  observer_->on_checkpoint(state_.steps);
}

void Trainer::export_model(const models::Transformer& model) const {
  models::GenerationDefaults defaults;
  // The start token and the new tokens have positions; transformers counts the end's too.
  defaults.max_new_tokens =
      static_cast<int>(std::min<int64_t>(defaults.max_new_tokens, model.config().max_positions - 2));
  models::save_transformer(inputs_.folder, model, defaults);
}

const models::Transformer& Trainer::evaluated_model() {
  if (!adam_->averages() && options_.average_last < 2) return *model_;
  if (!averaged_) averaged_ = std::make_unique<models::Transformer>(model_->config());
  const std::vector<nn::NamedParameter> parameters = nn::parameters_of(*averaged_);
  if (adam_->averages()) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      Variable variable = parameters[i].parameter.variable;
      variable.set_value(adam_->average(i));
    }
    return *averaged_;
  }
  make_writable_folder(inputs_.folder / "snapshots");
  nn::save_weights(snapshot_file(state_.steps), adam_->parameters());
  std::vector<std::filesystem::path> files;
  for (const int64_t step : state_.snapshots) {
    if (step != state_.steps) files.push_back(snapshot_file(step));
  }
  files.push_back(snapshot_file(state_.steps));
  average_weights(files, parameters);
  return *averaged_;
}

std::filesystem::path Trainer::snapshot_file(int64_t step) const {
  return inputs_.folder / "snapshots" / concat("step-", step, ".safetensors");
}

void Trainer::remove_old_snapshots() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(inputs_.folder / "snapshots", error)) {
    const bool needed = std::ranges::any_of(state_.snapshots, [&](int64_t step) {
      return entry.path().filename() == snapshot_file(step).filename();
    });
    std::error_code ignored;
    if (!needed) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace qkv::train

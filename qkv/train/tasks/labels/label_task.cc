#include "qkv/train/tasks/labels/label_task.h"

#include "qkv/nn/residual_branches.h"
#include "qkv/ops/general/losses.h"

namespace qkv::train {

using models::ClassificationTarget;

LabelTask::LabelTask(Inputs inputs)
    : EncoderTask(std::move(inputs.encoder), inputs.options, std::move(inputs.train),
                  std::move(inputs.fields)),
      valid_(std::move(inputs.valid)) {}

TaskInfo LabelTask::info() const {
  const bool texts = model_.config().labelled == ClassificationTarget::texts;
  return {
      .name = texts ? "classify" : "tag",
      .items = texts ? "texts" : "sentences",
      .units = "tokens",
      .train_items = std::ssize(train().items),
      .valid_items = valid_ ? std::ssize(valid_->items) : 0,
      .sizes = {{"vocabulary", model_.config().vocabulary}, {"labels", std::ssize(model_.config().labels)}}};
}

std::vector<Field> LabelTask::data_fields() const {
  std::string labels;
  for (const std::string& label : model_.config().labels) labels += (labels.empty() ? "" : ", ") + label;
  return {{"data.labels", labels},
          {"data.fingerprint", std::to_string(train().fingerprint())},
          {"valid.fingerprint", valid_ ? std::to_string(valid_->fingerprint()) : "0"}};
}

void LabelTask::initialise_randomly(uint64_t seed) {
  nn::initialise(model_, seed);
  // Tags of words are learned in fewer steps so, classes of texts are not (docs/results.md).
  if (model_.config().labelled == ClassificationTarget::tokens) nn::scale_residual_branches(model_);
}

BatchLoss LabelTask::loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const {
  const auto& own = static_cast<const LabelBatch&>(batch);
  const Variable hidden = hidden_states(model_, own, context);
  const Variable logits = model_.classifier_logits(hidden, own.texts.ragged().offsets, context);
  const bool regression = !own.values.empty();
  const Variable sum =
      regression
          ? mse(logits,
                from_host(Tensor::from(own.values, {std::ssize(own.values), 1}), logits.value().device()),
                Reduction::sum)
          : cross_entropy(logits, Tensor::from(own.labels, {std::ssize(own.labels)}),
                          {.ignored_label = kNoLabel,
                           .label_smoothing = options().label_smoothing,
                           .reduction = Reduction::sum});
  return mean_loss(sum, batch, step);
}

std::optional<Evaluation> LabelTask::evaluate(const EvaluationRequest& request) const {
  const std::optional<LabelPredictions> found = predict(model_, *valid_, evaluation_batch_tokens(), request);
  if (!found) return std::nullopt;
  return Evaluation{.loss = found->loss(), .metrics = label_scores(model_.config(), *found, *valid_)};
}

}  // namespace qkv::train

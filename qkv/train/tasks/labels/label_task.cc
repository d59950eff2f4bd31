#include "qkv/train/tasks/labels/label_task.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/nn/residual_branches.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/scale.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/fields.h"

namespace qkv::train {
namespace {

using models::ClassificationTarget;

constexpr std::string_view kLayers = "encoder.layers.";

// The tokens of 32 texts of average length.
int64_t usual_batch(const LabelRows& rows) {
  constexpr int64_t kTexts = 32;
  const std::vector<int64_t> costs = rows.costs();
  const int64_t tokens = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  return std::max<int64_t>(1, tokens * kTexts / std::max<int64_t>(1, std::ssize(costs)));
}

// The number of the encoder's layer that a parameter belongs to; -1: none.
int64_t layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return -1;
  int64_t layer = -1;
  std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

bool is_embedding(std::string_view name) {
  return name.starts_with("embed_") || name.starts_with("encoder.relative_positions.");
}

}  // namespace

void list_settings(Settings& all, LabelOptions& o) {
  all.add("train.batch_tokens", o.batch_tokens, kDecidesWeights, at_least(0))
      .flag({"TOKENS", "Tokens per batch; 0: those of 32 texts on average"});
  all.add("train.max_length", o.max_length, kDecidesWeights, at_least(0))
      .flag({"TOKENS", "Cut longer texts; 0: at the model's limit"});
  all.add("train.label_smoothing", o.label_smoothing, kDecidesWeights, below_one())
      .flag({"SHARE", "Label smoothing; 0: none"});
  all.add("train.layer_decay", o.layer_decay, kDecidesWeights,
          Range{.least = 0, .most = 1, .without_least = true, .expected = "more than 0, at most 1"})
      .flag({"FACTOR", "Factor of the learning rate from each layer to the one below; 1: one rate for all"});
  all.add("train.frozen_layers", o.frozen_layers, kDecidesWeights)
      .flag({"N", "Keep the embeddings and the N lowest layers as they are; 0: train all"});
}

void LabelOptions::validate(int64_t layers) const {
  validate_settings(*this);
  require_setting("train.frozen_layers", frozen_layers, frozen_layers >= 0 && frozen_layers <= layers,
                  concat("0 to the model's ", layers, " layers"));
}

LabelTask::LabelTask(Inputs inputs)
    : ModelTask(inputs.encoder.config, std::move(inputs.fields)),
      inputs_(std::move(inputs)),
      batch_tokens_(inputs_.options.batch_tokens > 0 ? inputs_.options.batch_tokens
                                                     : usual_batch(inputs_.train)) {
  inputs_.options.validate(model_.config().encoder.size());
  model_.visit([this](const std::string& name, const nn::Parameter& parameter) {
    if (is_frozen(name)) parameter.variable.set_requires_grad(false);
  });
}

TaskInfo LabelTask::info() const {
  const bool texts = model_.config().labelled == ClassificationTarget::texts;
  return {
      .name = texts ? "classify" : "tag",
      .items = texts ? "texts" : "sentences",
      .units = "tokens",
      .train_items = std::ssize(inputs_.train.items),
      .valid_items = inputs_.valid ? std::ssize(inputs_.valid->items) : 0,
      .sizes = {{"vocabulary", model_.config().vocabulary}, {"labels", std::ssize(model_.config().labels)}}};
}

std::vector<Field> LabelTask::data_fields() const {
  std::string labels;
  for (const std::string& label : model_.config().labels) labels += (labels.empty() ? "" : ", ") + label;
  return {{"data.labels", labels},
          {"data.fingerprint", std::to_string(inputs_.train.fingerprint())},
          {"valid.fingerprint", inputs_.valid ? std::to_string(inputs_.valid->fingerprint()) : "0"}};
}

void LabelTask::initialise_randomly(uint64_t seed) {
  nn::initialise(model_, seed);
  // Tags of words are learned in fewer steps so, classes of texts are not (docs/results.md).
  if (model_.config().labelled == ClassificationTarget::tokens) nn::scale_residual_branches(model_);
}

int64_t LabelTask::depth(const std::string& name) const {
  const int64_t layers = model_.config().encoder.size(), layer = layer_of(name);
  if (is_embedding(name)) return layers + 1;
  return layer < 0 ? 0 : layers - layer;
}

bool LabelTask::is_frozen(const std::string& name) const {
  const int64_t frozen = inputs_.options.frozen_layers, layer = layer_of(name);
  return frozen > 0 && (is_embedding(name) || (layer >= 0 && layer < frozen));
}

std::vector<optim::ParameterGroup> LabelTask::parameter_groups() const {
  std::vector<optim::ParameterGroup> groups;
  if (inputs_.options.frozen_layers > 0) {
    groups.push_back(
        {.contains = [this](const nn::NamedParameter& parameter) { return is_frozen(parameter.name); },
         .frozen = true});
  }
  if (inputs_.options.layer_decay == 1) return groups;
  for (int64_t d = 1; d <= model_.config().encoder.size() + 1; ++d) {
    groups.push_back(
        {.contains = [this, d](const nn::NamedParameter& parameter) { return depth(parameter.name) == d; },
         .learning_rate_factor = std::pow(double{inputs_.options.layer_decay}, static_cast<double>(d))});
  }
  return groups;
}

std::unique_ptr<BatchStream> LabelTask::batches(uint64_t seed, data::CursorState from) const {
  return stream_of(data::BatchCursor(inputs_.train.costs(), {.budget = batch_tokens_, .seed = seed}, from),
                   [this](const data::Batch& rows) { return label_batch(inputs_.train, rows.items); });
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
                           .label_smoothing = inputs_.options.label_smoothing,
                           .reduction = Reduction::sum});
  return {scaled(sum, 1.0f / static_cast<float>(step.labels)),
          {{"loss", CurveSum(sum), static_cast<double>(batch.size.labels)}}};
}

std::optional<Evaluation> LabelTask::evaluate(const EvaluationRequest& request) const {
  constexpr int64_t kTokens = 4096;  // affects memory and speed, not results
  const std::optional<LabelPredictions> found =
      predict(model_, *inputs_.valid, std::max(batch_tokens_, kTokens), request);
  if (!found) return std::nullopt;
  return Evaluation{.loss = found->loss(), .metrics = label_scores(model_.config(), *found, *inputs_.valid)};
}

void LabelTask::export_model(const std::filesystem::path& folder) const {
  models::save_text_encoder(folder, model_, inputs_.encoder.family);
  pipelines::write_proof(folder);
}

bool LabelTask::is_head(const std::string& parameter) const {
  return parameter.starts_with("classifier.") || parameter.starts_with("pooler.");
}

std::string LabelTask::adapter_type() const {
  return model_.config().labelled == ClassificationTarget::texts ? "SEQ_CLS" : "TOKEN_CLS";
}

}  // namespace qkv::train

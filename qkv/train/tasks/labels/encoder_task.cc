#include "qkv/train/tasks/labels/encoder_task.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "qkv/ops/general/scale.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/tasks/labels/label_scores.h"

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

EncoderTask::EncoderTask(EncoderStart encoder, const LabelOptions& options, LabelRows train,
                         std::vector<Field> settings)
    : ModelTask(encoder.config, std::move(settings)),
      encoder_(std::move(encoder)),
      options_(options),
      train_(std::move(train)),
      batch_tokens_(options.batch_tokens > 0 ? options.batch_tokens : usual_batch(train_)) {
  options_.validate(model_.config().encoder.size());
  model_.visit([this](const std::string& name, const nn::Parameter& parameter) {
    if (is_frozen(name)) parameter.variable.set_requires_grad(false);
  });
}

std::unique_ptr<BatchStream> EncoderTask::batches(uint64_t seed, data::CursorState from) const {
  return stream_of(data::BatchCursor(train_.costs(), {.budget = batch_tokens_, .seed = seed}, from),
                   [this](const data::Batch& rows) { return label_batch(train_, rows.items); });
}

BatchLoss EncoderTask::mean_loss(const Variable& sum, const Batch& batch, const BatchSize& step) {
  return {scaled(sum, 1.0f / static_cast<float>(step.labels)),
          {{"loss", CurveSum(sum), static_cast<double>(batch.size.labels)}}};
}

int64_t EncoderTask::evaluation_batch_tokens() const {
  constexpr int64_t kTokens = 4096;  // affects memory and speed, not results
  return std::max(batch_tokens_, kTokens);
}

int64_t EncoderTask::depth(const std::string& name) const {
  const int64_t layers = model_.config().encoder.size(), layer = layer_of(name);
  if (is_embedding(name)) return layers + 1;
  return layer < 0 ? 0 : layers - layer;
}

bool EncoderTask::is_frozen(const std::string& name) const {
  const int64_t frozen = options_.frozen_layers, layer = layer_of(name);
  return frozen > 0 && (is_embedding(name) || (layer >= 0 && layer < frozen));
}

std::vector<optim::ParameterGroup> EncoderTask::parameter_groups() const {
  std::vector<optim::ParameterGroup> groups;
  if (options_.frozen_layers > 0) {
    groups.push_back(
        {.contains = [this](const nn::NamedParameter& parameter) { return is_frozen(parameter.name); },
         .frozen = true});
  }
  if (options_.layer_decay == 1) return groups;
  for (int64_t d = 1; d <= model_.config().encoder.size() + 1; ++d) {
    groups.push_back(
        {.contains = [this, d](const nn::NamedParameter& parameter) { return depth(parameter.name) == d; },
         .learning_rate_factor = std::pow(double{options_.layer_decay}, static_cast<double>(d))});
  }
  return groups;
}

void EncoderTask::export_model(const std::filesystem::path& folder) const {
  models::save_text_encoder(folder, model_, encoder_.family);
  pipelines::write_proof(folder);
}

bool EncoderTask::is_head(const std::string& parameter) const {
  return parameter.starts_with("classifier.") || parameter.starts_with("pooler.");
}

std::string EncoderTask::adapter_type() const {
  switch (model_.config().labelled) {
    case ClassificationTarget::texts:
      return "SEQ_CLS";
    case ClassificationTarget::tokens:
      return "TOKEN_CLS";
    case ClassificationTarget::spans:
      return "QUESTION_ANS";
    case ClassificationTarget::nothing:
      break;
  }
  return {};
}

}  // namespace qkv::train

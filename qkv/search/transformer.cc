#include "qkv/search/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "qkv/base/error.h"
#include "qkv/kernels/loss.h"
#include "qkv/search/alignment.h"
#include "qkv/search/batches.h"

namespace qkv::search {
namespace {

void require_alike(const ModelList& models) {
  if (models.empty()) throw UsageError("search: expected at least one model, found none");
  const models::TransformerConfig& first = models.front()->config();
  for (const models::Transformer* model : models) {
    const models::TransformerConfig& config = model->config();
    const auto same = [&](const char* what, int64_t expected, int64_t found) {
      if (expected != found) {
        throw UsageError(concat("ensemble: expected models of one vocabulary, found ", what, " ", expected,
                                " and ", found));
      }
    };
    same("source_vocabulary", first.source_vocabulary, config.source_vocabulary);
    same("target_vocabulary", first.target_vocabulary, config.target_vocabulary);
    same("decoder_start_id", first.decoder_start_id, config.decoder_start_id);
    same("eos_id", first.eos_id, config.eos_id);
    same("pad_id", first.pad_id, config.pad_id);
  }
}

// Some of the rows of a tensor of any dtype, as a tensor of this shape.
Tensor hypothesis_offsets(const Tensor& from, Ids ids, const Shape& shape) {
  Tensor rows = Tensor::empty(shape, from.dtype());
  const size_t bytes = rows.bytes() / ids.size();
  auto* to = static_cast<std::byte*>(rows.address());
  for (const int32_t id : ids) {
    std::memcpy(to, static_cast<const std::byte*>(from.address()) + static_cast<size_t>(id) * bytes, bytes);
    to += bytes;
  }
  return rows;
}

}  // namespace

TransformerStepModel::TransformerStepModel(const models::Transformer& model) : model_(model) {}

void TransformerStepModel::check(Ids source) const {
  const models::TransformerConfig& config = model_.config();
  if (source.empty()) throw UsageError("search: expected a source with at least one token, found none");
  for (const int32_t id : source) {
    if (id >= 0 && id < config.source_vocabulary) continue;
    throw DataError(
        concat("search: source: expected ids from 0 to ", config.source_vocabulary - 1, ", found ", id));
  }
  if (config.positions == nn::PositionKind::learned && std::ssize(source) > config.max_positions) {
    throw DataError(concat("search: source: expected at most the model's ", config.max_positions,
                           " positions, found ", source.size(), " tokens"));
  }
}

void TransformerStepModel::admit(std::span<const Ids> sources) {
  nn::ForwardContext context;
  state_.join(model_.start(model_.encode(pack_ragged(sources), context)));
}

Tensor TransformerStepModel::step(const Tensor& ids) {
  return restricted_ ? model_.step(ids, state_, *restricted_) : model_.step(ids, state_);
}

void TransformerStepModel::reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) {
  state_.reorder(parents, hypothesis_offsets);
}

bool TransformerStepModel::restrict_logits(Ids ids) {
  restricted_.reset();
  if (ids.empty()) return true;
  const LinearWeights& output = model_.output_projection();
  const Variable& weights = output.weights().front();
  const int64_t count = std::ssize(ids);
  Variable rows(hypothesis_offsets(weights.value(), ids, {count, output.inputs()}));
  if (weights.scales().defined())
    rows.set_value(rows.value(), hypothesis_offsets(weights.scales(), ids, {count}));
  const Variable& bias = output.biases().front();
  restricted_.emplace(
      std::vector<Variable>{rows},
      std::vector<Variable>{bias.defined() ? Variable(hypothesis_offsets(bias.value(), ids, {count}))
                                           : Variable()});
  return true;
}

bool TransformerStepModel::capture_cross_attention(bool on) {
  state_.watched_layer = on ? alignment_layer(model_.config()) : -1;
  return true;
}

EnsembleStepModel::EnsembleStepModel(std::vector<std::unique_ptr<StepModel>> steppers)
    : steppers_(std::move(steppers)) {}

void EnsembleStepModel::check(Ids source) const {
  for (const auto& step_model : steppers_) step_model->check(source);
}

void EnsembleStepModel::admit(std::span<const Ids> sources) {
  for (const auto& step_model : steppers_) step_model->admit(sources);
}

Tensor EnsembleStepModel::step(const Tensor& ids) {
  Tensor mean = steppers_.front()->step(ids);
  const int64_t rows = mean.rows(), vocabulary = mean.cols();
  kernels::log_softmax(mean.data(), nullptr, mean.data(), rows, vocabulary);
  const auto to_probabilities = [](std::span<float> values) {
    for (float& x : values) x = std::exp(x);
  };
  to_probabilities(mean.values());
  for (size_t i = 1; i < steppers_.size(); ++i) {
    const Tensor other = steppers_[i]->step(ids);
    kernels::log_softmax(other.data(), nullptr, other.data(), rows, vocabulary);
    to_probabilities(other.values());
    std::ranges::transform(mean.values(), other.values(), mean.values().begin(), std::plus());
  }
  const float share = 1.0f / static_cast<float>(steppers_.size());
  for (float& x : mean.values()) x = std::log(x * share);
  find_source_weights();
  return mean;
}

void EnsembleStepModel::find_source_weights() {
  const auto first = steppers_.front()->source_weights();
  source_weights_.assign(first.begin(), first.end());
  const float share = 1.0f / static_cast<float>(steppers_.size());
  for (size_t row = 0; row < source_weights_.size(); ++row) {
    std::vector<float>& mean = source_weights_[row];
    for (size_t i = 1; i < steppers_.size(); ++i)
      std::ranges::transform(mean, steppers_[i]->source_weights()[row], mean.begin(), std::plus());
    for (float& weight : mean) weight *= share;
  }
}

void EnsembleStepModel::reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) {
  for (const auto& step_model : steppers_) step_model->reorder(parents, hypothesis_offsets);
}

bool EnsembleStepModel::capture_cross_attention(bool on) {
  return std::ranges::all_of(
      steppers_, [on](const auto& step_model) { return step_model->capture_cross_attention(on); });
}

std::unique_ptr<StepModel> make_step_model(const ModelList& models) {
  require_alike(models);
  std::vector<std::unique_ptr<StepModel>> steppers;
  for (const models::Transformer* model : models)
    steppers.push_back(std::make_unique<TransformerStepModel>(*model));
  if (steppers.size() == 1) return std::move(steppers.front());
  return std::make_unique<EnsembleStepModel>(std::move(steppers));
}

SpecialIds special_ids(const ModelList& models) {
  require_alike(models);
  const models::TransformerConfig& config = models.front()->config();
  return {.start = static_cast<int32_t>(config.decoder_start_id), .eos = static_cast<int32_t>(config.eos_id)};
}

SearchOptions fitting(const ModelList& models, SearchOptions options) {
  for (const models::Transformer* model : models) {
    const models::TransformerConfig& config = model->config();
    const auto pad = static_cast<int32_t>(config.pad_id);
    if (pad != config.eos_id) options.suppress_tokens.push_back(pad);
    const std::optional<int64_t> most = config.most_tokens();
    if (!most) continue;
    // The last token is never an input, so it needs no position.
    options.max_length = static_cast<int>(std::min<int64_t>(options.max_length, *most + 1));
    options.min_length = std::min(options.min_length, options.max_length);
  }
  return options;
}

std::vector<Decoded> search_each(const ModelList& models, std::span<const Request> requests,
                                 const SearchOptions& options, int64_t batch_tokens) {
  options.validate();
  const std::unique_ptr<StepModel> step_model = make_step_model(models);
  Engine engine(*step_model, special_ids(models), batch_tokens);
  return decode_all(engine, requests, fitting(models, options));
}

std::vector<NBest> search(const ModelList& models, std::span<const Request> requests,
                          const SearchOptions& options, int64_t batch_tokens) {
  return hypotheses_of(search_each(models, requests, options, batch_tokens));
}

std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, int64_t batch_tokens) {
  std::vector<Request> requests;
  for (const auto& source : sources) requests.push_back({.source = source, .key = requests.size()});
  return search(ModelList{&model}, requests, options, batch_tokens);
}

}  // namespace qkv::search

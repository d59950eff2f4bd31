#include "qkv/decode/transformer.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/decode/batches.h"
#include "qkv/kernels/loss.h"

namespace qkv::decode {
namespace {

nn::DecoderState start(const models::Transformer& model, const Ragged& source) {
  nn::Pass pass;
  return model.start(model.encode(source, pass));
}

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

}  // namespace

TransformerStepper::TransformerStepper(const models::Transformer& model, const Ragged& source)
    : model_(model), state_(start(model, source)) {}

Tensor TransformerStepper::step(const Tensor& ids) { return model_.step(ids, state_); }

void TransformerStepper::reorder(std::span<const int32_t> parents, const Offsets& rows_of) {
  state_.reorder(parents, rows_of);
}

EnsembleStepper::EnsembleStepper(std::vector<std::unique_ptr<Stepper>> steppers)
    : steppers_(std::move(steppers)) {}

Tensor EnsembleStepper::step(const Tensor& ids) {
  Tensor mean = steppers_.front()->step(ids);
  if (steppers_.size() == 1) return mean;
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
  return mean;
}

void EnsembleStepper::reorder(std::span<const int32_t> parents, const Offsets& rows_of) {
  for (const auto& stepper : steppers_) stepper->reorder(parents, rows_of);
}

SearchOptions fitting(const ModelList& models, SearchOptions options) {
  for (const models::Transformer* model : models) {
    const models::TransformerConfig& config = model->config();
    const auto pad = static_cast<int32_t>(config.pad_id);
    if (pad != config.eos_id) options.forbidden.push_back(pad);
    if (config.positions == nn::PositionKind::none) continue;
    // The last token is never an input, so it needs no position.
    options.max_length = static_cast<int>(std::min<int64_t>(options.max_length, config.max_positions + 1));
    options.min_length = std::min(options.min_length, options.max_length);
  }
  return options;
}

std::vector<NBest> search(const ModelList& models, std::span<const Request> requests,
                          const SearchOptions& options, int64_t batch_tokens) {
  options.validate();
  require_alike(models);
  const models::TransformerConfig& config = models.front()->config();
  const SearchOptions used = fitting(models, options);
  const SpecialIds special{.start = static_cast<int32_t>(config.decoder_start_id),
                           .eos = static_cast<int32_t>(config.eos_id)};
  std::vector<int64_t> lengths;
  for (const Request& request : requests) {
    if (request.source.empty()) {
      throw UsageError(
          concat("search: source ", lengths.size(), ": expected at least one token, found none"));
    }
    lengths.push_back(std::ssize(request.source));
  }
  std::vector<NBest> results(requests.size());
  for (const std::vector<size_t>& batch : batches_by_length(lengths, batch_tokens)) {
    std::vector<Request> together;
    std::vector<std::vector<int32_t>> sources;
    std::vector<size_t> order;
    for (const size_t i : batch) {
      together.push_back(requests[i]);
      order.push_back(sources.size());
      sources.push_back(requests[i].source);
    }
    std::vector<std::unique_ptr<Stepper>> steppers;
    for (const models::Transformer* model : models)
      steppers.push_back(std::make_unique<TransformerStepper>(*model, lay_out(sources, order)));
    EnsembleStepper ensemble(std::move(steppers));
    std::vector<NBest> found = search(ensemble, special, together, used);
    for (size_t i = 0; i < batch.size(); ++i) results[batch[i]] = std::move(found[i]);
  }
  return results;
}

std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, int64_t batch_tokens) {
  std::vector<Request> requests;
  for (const auto& source : sources) requests.push_back({.source = source, .key = requests.size()});
  return search(ModelList{&model}, requests, options, batch_tokens);
}

}  // namespace qkv::decode

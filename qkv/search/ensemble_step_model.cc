#include "qkv/search/ensemble_step_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/kernels/loss.h"

namespace qkv::search {
namespace {

// A source as opened by each model.
struct EnsembleSource : StepModel::Source {
  using Source::Source;
  void count_unread() {
    unread = 0;
    for (const auto& part : parts) unread = std::max(unread, part->unread);
  }
  std::vector<std::unique_ptr<StepModel::Source>> parts;
};

std::unique_ptr<StepModel::Source> reopened(StepModel& model, const StepModel::Source& used_up) {
  std::unique_ptr<StepModel::Source> source = model.open(used_up.ids, used_up.rows);
  if (source->unread > 0) {
    const StepModel::Chunk rest{source.get(), source->unread};
    model.read({&rest, 1});
  }
  return source;
}

}  // namespace

EnsembleStepModel::EnsembleStepModel(std::vector<std::shared_ptr<StepModel>> models)
    : models_(std::move(models)) {
  if (models_.empty() || std::ranges::count(models_, nullptr) > 0)
    throw UsageError("ensemble: expected at least one model, found none");
  for (const auto& model : models_) {
    if (model->vocabulary() == vocabulary()) continue;
    throw UsageError(concat("ensemble: expected models of one vocabulary, found ", vocabulary(), " and ",
                            model->vocabulary(), " tokens"));
  }
}

void EnsembleStepModel::check(Ids source, const EmbeddedRows& rows) const {
  for (const auto& model : models_) model->check(source, rows);
}

int64_t EnsembleStepModel::cache_bytes(const CacheNeed& need) const {
  int64_t bytes = 0;
  for (const auto& model : models_) bytes += model->cache_bytes(need);
  return bytes;
}

std::unique_ptr<StepModel::Source> EnsembleStepModel::open(Ids source, const EmbeddedRows& rows) {
  auto opened = std::make_unique<EnsembleSource>(source);
  for (const auto& model : models_) opened->parts.push_back(model->open(source, rows));
  opened->count_unread();
  return opened;
}

// Members may have different numbers of unread tokens, as each has its own prefix cache.
void EnsembleStepModel::read(std::span<const Chunk> chunks) {
  for (size_t m = 0; m < models_.size(); ++m) {
    std::vector<Chunk> own;
    for (const Chunk& chunk : chunks) {
      Source* part = static_cast<EnsembleSource*>(chunk.source)->parts[m].get();
      if (part->unread > 0) own.push_back({part, std::min(part->unread, chunk.tokens)});
    }
    if (!own.empty()) models_[m]->read(own);
  }
  for (const Chunk& chunk : chunks) static_cast<EnsembleSource*>(chunk.source)->count_unread();
}

void EnsembleStepModel::admit(std::span<const std::unique_ptr<Source>> sources) {
  std::vector<std::vector<std::unique_ptr<Source>>> parts(models_.size());
  for (auto& own : parts) own.reserve(sources.size());
  for (const auto& source : sources) {
    auto& ensemble = static_cast<EnsembleSource&>(*source);
    for (size_t m = 0; m < models_.size(); ++m) parts[m].push_back(std::move(ensemble.parts[m]));
  }
  rows_.reserve(rows_.size() + sources.size());
  size_t admitted = 0;  // members
  try {
    for (; admitted < models_.size(); ++admitted) models_[admitted]->admit(parts[admitted]);
  } catch (...) {
    for (size_t m = 0; m < admitted; ++m) {
      remove_last(*models_[m], sources.size());
      for (auto& part : parts[m]) part = reopened(*models_[m], *part);  // admit() has used it up
    }
    // The engine retries them individually.
    for (size_t i = 0; i < sources.size(); ++i) {
      for (size_t m = 0; m < models_.size(); ++m)
        static_cast<EnsembleSource&>(*sources[i]).parts[m] = std::move(parts[m][i]);
    }
    throw;
  }
  rows_.resize(rows_.size() + sources.size(), 1);
}

// Removes requests that a member has admitted beyond the others'.
void EnsembleStepModel::remove_last(StepModel& model, size_t requests) const {
  std::vector<int32_t> lengths = rows_;
  lengths.resize(rows_.size() + requests, 0);
  const Offsets offsets = Offsets::of_lengths(lengths);
  std::vector<int32_t> parents(static_cast<size_t>(offsets.tokens()));
  std::iota(parents.begin(), parents.end(), 0);
  model.reorder(parents, offsets);
}

Tensor EnsembleStepModel::step(const Tensor& ids) {
  Tensor mean = to_host(models_.front()->step(ids));
  kernels::log_softmax(mean, {}, mean);
  const auto to_probabilities = [](std::span<float> values) {
    for (float& x : values) x = std::exp(x);
  };
  to_probabilities(mean.values());
  for (size_t i = 1; i < models_.size(); ++i) {
    Tensor other = to_host(models_[i]->step(ids));
    kernels::log_softmax(other, {}, other);
    to_probabilities(other.values());
    std::ranges::transform(mean.values(), other.values(), mean.values().begin(), std::plus());
  }
  const float share = 1.0f / static_cast<float>(models_.size());
  for (float& x : mean.values()) x = std::log(x * share);
  find_source_weights();
  return mean;
}

void EnsembleStepModel::find_source_weights() {
  const auto first = models_.front()->source_weights();
  source_weights_.assign(first.begin(), first.end());
  const float share = 1.0f / static_cast<float>(models_.size());
  for (size_t row = 0; row < source_weights_.size(); ++row) {
    std::vector<float>& mean = source_weights_[row];
    for (size_t i = 1; i < models_.size(); ++i)
      std::ranges::transform(mean, models_[i]->source_weights()[row], mean.begin(), std::plus());
    for (float& weight : mean) weight *= share;
  }
}

void EnsembleStepModel::reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) {
  for (const auto& model : models_) model->reorder(parents, hypothesis_offsets);
  rows_.clear();
  for (int64_t i = 0; i < hypothesis_offsets.sequences(); ++i) {
    if (hypothesis_offsets.length(i) > 0) rows_.push_back(static_cast<int32_t>(hypothesis_offsets.length(i)));
  }
}

bool EnsembleStepModel::has_cross_attention() const {
  return std::ranges::all_of(models_, [](const auto& model) { return model->has_cross_attention(); });
}

void EnsembleStepModel::capture_cross_attention(bool on) {
  for (const auto& model : models_) model->capture_cross_attention(on);
}

}  // namespace qkv::search

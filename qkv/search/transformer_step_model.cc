#include "qkv/search/transformer_step_model.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/search/alignment.h"

namespace qkv::search {

TransformerStepModel::TransformerStepModel(std::shared_ptr<const models::Transformer> model,
                                           const StepModelOptions& options)
    : model_(std::move(model)), options_(options) {
  if (model_ == nullptr) throw UsageError("search: expected a model, found none");
  options_.validate();
  cache_bytes({});  // throws where the cache's dtype does not fit the model
}

void TransformerStepModel::check(Ids source, const EmbeddedRows& rows) const {
  const models::TransformerConfig& config = model_->config();
  if (source.empty()) throw UsageError("search: expected a source with at least one token, found none");
  if (config.reads_audio()) {
    if (std::ranges::any_of(source, [](int32_t id) { return id >= 0; }) ||
        rows.count() != std::ssize(source) || rows.values.cols() != config.d_model ||
        rows.values.device() != model_->logits().device()) {
      throw UsageError(concat("search: source: expected ids below 0 and the encoder's result, [",
                              source.size(), ", ", config.d_model, "], found others"));
    }
    return;
  }
  if (rows.count() > 0) throw UsageError("search: rows: expected none, as sources are tokens, found some");
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

int64_t TransformerStepModel::cache_bytes(const CacheNeed& need) const {
  return nn::cache_bytes(model_->config().decoder_stack(), {.rows = need.rows, .steps = need.tokens},
                         need.source_tokens, options_.cache_dtype);
}

void TransformerStepModel::admit(std::span<const std::unique_ptr<Source>> sources) {
  state_.join(model_->start(encoded(sources), options_.cache_dtype));
}

nn::Memory TransformerStepModel::encoded(std::span<const std::unique_ptr<Source>> sources) const {
  std::vector<Ids> ids;
  for (const auto& source : sources) ids.emplace_back(source->ids);
  nn::ForwardContext context;
  if (!model_->config().reads_audio()) return model_->encode(Ragged::from(ids), context);
  const Offsets offsets = Ragged::from(ids).offsets;
  const Tensor& first = sources.front()->rows.values;
  if (sources.size() == 1) return {Variable(first), offsets};
  Tensor rows = Tensor::empty({offsets.tokens(), first.cols()}, DType::f32, first.device());
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto sequence = static_cast<int64_t>(i);
    rows.slice_rows(offsets.begin(sequence), offsets.length(sequence)).copy_from(sources[i]->rows.values);
  }
  return {Variable(rows), offsets};
}

Tensor TransformerStepModel::step(const Tensor& ids) {
  return restricted_ ? model_->step(ids, state_, *restricted_) : model_->step(ids, state_);
}

void TransformerStepModel::reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) {
  state_.reorder(parents, hypothesis_offsets);
}

bool TransformerStepModel::restrict_logits(Ids ids) {
  restricted_.reset();
  if (!ids.empty()) restricted_ = model_->logits().select(ids);
  return true;
}

void TransformerStepModel::capture_cross_attention(bool on) {
  state_.watched_layer = on ? coverage_layer(model_->config()) : -1;
}

}  // namespace qkv::search

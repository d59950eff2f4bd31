#include "qkv/decode/transformer.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/decode/batches.h"

namespace qkv::decode {
namespace {

nn::DecoderState start(const models::Transformer& model, const Ragged& source) {
  nn::Pass pass;
  return model.start(model.encode(source, pass));
}

}  // namespace

TransformerStepper::TransformerStepper(const models::Transformer& model, const Ragged& source)
    : model_(model), state_(start(model, source)) {}

Tensor TransformerStepper::step(const Tensor& ids) { return model_.step(ids, state_); }

void TransformerStepper::reorder(std::span<const int32_t> parents, const Offsets& rows_of) {
  state_.reorder(parents, rows_of);
}

std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, int64_t batch_tokens) {
  options.validate();
  const models::TransformerConfig& config = model.config();
  SearchOptions used = options;
  const auto pad = static_cast<int32_t>(config.pad_id);
  if (pad != config.eos_id) used.forbidden.push_back(pad);
  if (config.positions != nn::PositionKind::none) {
    // The last token is never an input, so it needs no position.
    used.max_length = static_cast<int>(std::min<int64_t>(used.max_length, config.max_positions + 1));
    used.min_length = std::min(used.min_length, used.max_length);
  }
  const SpecialIds special{.start = static_cast<int32_t>(config.decoder_start_id),
                           .eos = static_cast<int32_t>(config.eos_id)};

  std::vector<int64_t> lengths;
  for (const auto& source : sources) {
    if (source.empty()) {
      throw UsageError(
          concat("search: source ", lengths.size(), ": expected at least one token, found none"));
    }
    lengths.push_back(static_cast<int64_t>(source.size()));
  }
  std::vector<NBest> results(sources.size());
  for (const std::vector<size_t>& batch : batches_by_length(lengths, batch_tokens)) {
    TransformerStepper stepper(model, lay_out(sources, batch));
    std::vector<int64_t> batch_lengths;
    for (const size_t i : batch) batch_lengths.push_back(lengths[i]);
    std::vector<NBest> found = search(stepper, special, batch_lengths, used);
    for (size_t i = 0; i < batch.size(); ++i) results[batch[i]] = std::move(found[i]);
  }
  return results;
}

}  // namespace qkv::decode

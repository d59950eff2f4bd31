#include "qkv/search/score.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/data/batches_by_length.h"
#include "qkv/tensor/storage.h"

namespace qkv::search {

std::vector<int32_t> decoder_input(const models::Transformer& model, std::span<const int32_t> target) {
  std::vector<int32_t> input;
  if (target.empty()) return input;
  input.push_back(static_cast<int32_t>(model.config().decoder_start_id));
  input.insert(input.end(), target.begin(), target.end() - 1);
  return input;
}

std::vector<std::vector<float>> score(const models::Transformer& model,
                                      std::span<const std::vector<int32_t>> sources,
                                      std::span<const std::vector<int32_t>> targets, int64_t batch_tokens) {
  if (sources.size() != targets.size()) {
    throw UsageError(concat("score: expected as many targets as sources, found ", sources.size(),
                            " sources and ", targets.size(), " targets"));
  }
  std::vector<size_t> pairs;  // pairs with a target to score
  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> inputs(targets.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].empty()) {
      throw UsageError(concat("score: source ", i, ": expected at least one token, found none"));
    }
    if (targets[i].empty()) continue;
    pairs.push_back(i);
    lengths.push_back(static_cast<int64_t>(sources[i].size() + targets[i].size()));
    inputs[i] = decoder_input(model, targets[i]);
  }

  std::vector<std::vector<float>> results(sources.size());
  const InferenceMemory inference;
  for (std::vector<size_t> batch : data::batches_by_length(lengths, batch_tokens)) {
    std::vector<int32_t> labels;
    std::vector<std::span<const int32_t>> source, input;
    for (size_t& i : batch) {
      i = pairs[i];
      labels.insert(labels.end(), targets[i].begin(), targets[i].end());
      source.emplace_back(sources[i]);
      input.emplace_back(inputs[i]);
    }
    nn::ForwardContext context;
    const nn::Memory memory = model.encode(Ragged::from(source), context);
    const Variable hidden = model.decode(Ragged::from(input), memory, context);
    const std::vector<float> found = model.logits().log_probabilities(hidden.value(), labels);
    auto next = found.begin();
    for (const size_t i : batch) {
      const auto end = next + static_cast<std::ptrdiff_t>(targets[i].size());
      results[i].assign(next, end);
      next = end;
    }
  }
  return results;
}

}  // namespace qkv::search

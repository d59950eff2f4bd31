#include "qkv/search/capture.h"

#include "qkv/base/error.h"
#include "qkv/search/score.h"

namespace qkv::search {
namespace {

Ragged one_sequence(std::span<const int32_t> ids) { return Ragged::from(std::span(&ids, 1)); }

}  // namespace

Capture capture(const models::Transformer& model, std::span<const int32_t> source,
                std::span<const int32_t> target) {
  if (source.empty() || target.empty()) {
    throw UsageError(concat("capture: expected source and target with at least one token each, found ",
                            source.size(), " and ", target.size()));
  }
  Capture result{.source = {source.begin(), source.end()},
                 .target_inputs = decoder_input(model, target),
                 .target_outputs = {target.begin(), target.end()},
                 .log_probabilities = {},
                 .attentions = {}};
  nn::ForwardContext context;
  context.observer = [&](const std::string& name, const std::vector<Tensor>& weights) {
    result.attentions.push_back({name, to_host(weights.front())});
  };
  const nn::Memory memory = model.encode(one_sequence(result.source), context);
  const Variable hidden = model.decode(one_sequence(result.target_inputs), memory, context);
  result.log_probabilities = model.logits().log_probabilities(hidden.value(), target);
  return result;
}

}  // namespace qkv::search

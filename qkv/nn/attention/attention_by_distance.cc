// Disentangled attention (DeBERTa): scores by distance as biases.

#include <algorithm>
#include <utility>

#include "qkv/base/scope.h"
#include "qkv/nn/attention/attention.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/dropout.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/general/distance_scores.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"

namespace qkv::nn {

// In groups of sequences, as the scores by distance of all could be many.
Variable MultiheadAttention::attend_by_distances(const Heads& heads, const Offsets& offsets,
                                                 const AttentionMask& mask, ForwardContext& context) const {
  if (mask.keep.defined() || mask.bias.defined() || !k_ || options_.key_heads != options_.heads)
    throw UsageError(
        "attention: disentangled positions: expected as many heads of keys as of queries, no keep and no "
        "bias, found others");
  constexpr int64_t kMostScores = int64_t{4} << 20;  // of a group
  const WeightLayout layout = context.weight_layout();
  const Variable of_keys = to_f32(linear(mask.distances.of_keys, *k_, layout)),
                 of_queries = to_f32(linear(mask.distances.of_queries, *q_, layout));
  const int64_t longest = (of_keys.value().rows() + 1) / 2;
  const Dropout dropout = context.dropout(options_.dropout);
  const Variable queries = contiguous("attention", heads.query), keys = contiguous("attention", heads.key),
                 values = contiguous("attention", heads.value);
  std::vector<Variable> outputs;
  std::vector<Tensor> weights;
  for (int64_t s = 0; s < offsets.sequences();) {
    const int64_t first = offsets.begin(s);
    std::vector<int32_t> ends{0};
    for (int64_t n = 0; s < offsets.sequences(); ++s) {
      n = std::max(n, offsets.length(s));
      if (ends.size() > 1 && std::ssize(ends) * options_.heads * n * n > kMostScores) break;
      ends.push_back(static_cast<int32_t>(offsets.end(s) - first));
    }
    const Offsets group(std::move(ends));
    const int64_t tokens = group.tokens(), n = group.max_length();
    if (tokens == 0) {
      weights.resize(weights.size() + static_cast<size_t>(context.observer ? group.sequences() : 0));
      continue;
    }
    const auto rows = [&](const Variable& x) {
      return tokens == x.shape()[0] ? x : slice(x, 0, first, tokens);
    };
    const auto nearest = [&](const Variable& x) {
      return n == longest ? x : slice(x, 0, longest - n, 2 * n - 1);
    };
    const Heads own{rows(queries), rows(keys), rows(values)};
    AttentionMask with_scores = mask;
    with_scores.bias = distance_scores(to_f32(own.query), to_f32(own.key), nearest(of_keys),
                                       nearest(of_queries), group, options_.heads, *options_.variant.scale);
    AttentionOptions options = description(true);
    options.query_offsets = options.key_offsets = group;
    options.dropout = dropout;
    options.dropout.first_row += static_cast<uint32_t>(first);
    const AttentionResult result = attended(own, with_scores, context, std::move(options));
    outputs.push_back(result.output);
    weights.insert(weights.end(), result.weights.begin(), result.weights.end());
  }
  if (context.observer) context.observer(NameScope::current(), weights);
  if (outputs.empty()) outputs.push_back(values);
  return linear(outputs.size() == 1 ? outputs.front() : concatenate(outputs, 0), out_, layout);
}

}  // namespace qkv::nn

#include "qkv/search/alignment.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/search/capture.h"

namespace qkv::search {

int64_t alignment_layer(const models::TransformerConfig& config) {
  return std::max<int64_t>(0, config.decoder_layers - 2);
}

std::vector<int32_t> align(const models::Transformer& model, std::span<const int32_t> source,
                           std::span<const int32_t> target) {
  return align(capture(model, source, target), alignment_layer(model.config()));
}

std::vector<int32_t> align(const Capture& captured, int64_t layer) {
  const std::string name = concat("decoder.layers.", layer, ".encoder_attn");
  const auto found = std::ranges::find(captured.attentions, name, &CapturedAttention::name);
  if (found == captured.attentions.end()) {
    throw UsageError(concat("alignment: expected the model to have ", name, ", found no such attention"));
  }
  const Tensor& weights = found->weights;
  const int64_t heads = weights.dim(0), queries = weights.dim(1), keys = weights.dim(2);
  std::vector<int32_t> result;
  std::vector<float> sums(static_cast<size_t>(keys));
  for (int64_t query = 0; query < queries; ++query) {
    std::ranges::fill(sums, 0.0f);
    for (int64_t head = 0; head < heads; ++head) {
      const float* row = weights.data() + (head * queries + query) * keys;
      for (int64_t key = 0; key < keys; ++key) sums[static_cast<size_t>(key)] += row[key];
    }
    result.push_back(static_cast<int32_t>(std::ranges::max_element(sums) - sums.begin()));
  }
  return result;
}

}  // namespace qkv::search

#include "qkv/search/alignment.h"

#include <algorithm>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/metrics/information.h"
#include "qkv/search/capture.h"

namespace qkv::search {

int64_t coverage_layer(const models::TransformerConfig& config) {
  return std::max<int64_t>(0, config.decoder_layers - 2);
}

std::vector<int32_t> align(const models::Transformer& model, std::span<const int32_t> source,
                           std::span<const int32_t> target) {
  return align(capture(model, source, target), model.config().eos_id);
}

std::vector<int32_t> align(const Capture& captured, int64_t eos_id) {
  const size_t queries = captured.target_outputs.size(), keys = captured.source.size();
  std::vector<double> sums;  // [queries, keys]
  for (const CapturedAttention& attention : captured.attentions) {
    if (!attention.name.ends_with(".encoder_attn")) continue;
    sums.resize(queries * keys);
    const Tensor& weights = attention.weights;
    for (int64_t head = 0; head < weights.dim(0); ++head) {
      const float* from = weights.data() + head * weights.dim(1) * weights.row_stride();
      const double information =
          metrics::mutual_information(from, weights.dim(1), weights.dim(2), weights.row_stride());
      const double share = information * information + 1e-6;  // if no head has any, all count alike
      for (size_t i = 0; i < queries; ++i) {
        const float* row = from + static_cast<int64_t>(i) * weights.row_stride();
        for (size_t j = 0; j < keys; ++j) sums[i * keys + j] += share * row[j];
      }
    }
  }
  if (sums.empty()) throw UsageError("alignment: expected cross attention, found none");
  std::vector<int32_t> result;
  for (size_t i = 0; i < queries; ++i) {
    const bool ends = captured.target_outputs[i] == eos_id;
    std::optional<size_t> best;
    for (size_t j = 0; j < keys; ++j) {
      const auto fits = [&](size_t key) { return (captured.source[key] == eos_id) == ends; };
      const bool better =
          !best || (fits(j) != fits(*best) ? fits(j) : sums[i * keys + j] > sums[i * keys + *best]);
      if (better) best = j;
    }
    result.push_back(static_cast<int32_t>(*best));
  }
  return result;
}

}  // namespace qkv::search

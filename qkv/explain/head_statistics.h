#pragma once
// What each head of a layer attends to, in a few numbers.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/tensor/tensor.h"

namespace qkv::explain {

enum class Part : uint8_t;
struct AttentionLayer;
struct AttentionReport;
struct ImageAttentionReport;

// Means over the queries i of a head, of its weights w_ij over the keys j.
struct HeadStatistics {
  double entropy = 0;  // -sum_j w_ij log2 w_ij, in bits: 0 if one key has it all, log2(keys) if all are alike
  double largest = 0;  // max_j w_ij
  double first = 0;    // w_i0; heads of language models rest there ("attention sink", Xiao et al. 2024)
  // The mutual information of query and key, in bits (metrics/information.h). It is 0 if all queries attend
  // alike, to one key or to all, and log2(keys) if each attends to a key of its own.
  double information = 0;
  // Self-attention: sum_j w_ij |i - j|, in tokens. Images: between the centres of two patches, in patches, by
  // the weights among patches alone ("mean attention distance", Dosovitskiy et al. 2021, figure 7).
  std::optional<double> distance = {};
  // The share of the special tokens, such as [CLS] and [SEP] (Clark et al. 2019), if there are any.
  std::optional<double> special = {};
  // Of a pair of texts: the share of the tokens of the text that the query is not of.
  std::optional<double> across = {};
};

// Of each head. The layer is one of the report's; its own statistics, if it has them. Both throw ShapeError
// if it does not have the report's tokens.
std::vector<HeadStatistics> head_statistics(const AttentionReport& report, const AttentionLayer& layer);
// weights: f32 [heads, tokens, tokens], one of the report's layers.
std::vector<HeadStatistics> head_statistics(const ImageAttentionReport& report, const Tensor& weights);

// The head of a part that shows most: the one with the most information; of equals the first.
struct HeadPlace {
  int layer = 0, head = 0;  // from 0; the layer as AttentionLayer::index
};
// Throws UsageError if the report has no layer of the part, and the errors of head_statistics().
HeadPlace most_informative_head(const AttentionReport& report, Part part);

// [{"entropy": 1.5, ...}]; what a head does not have is missing.
std::string to_json(std::span<const HeadStatistics> heads);

}  // namespace qkv::explain

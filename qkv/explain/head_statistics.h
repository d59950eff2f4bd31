#pragma once
// What each head of a layer attends to, in a few numbers.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/tensor/tensor.h"

namespace qkv::explain {

struct AttentionLayer;
struct AttentionReport;
struct ImageAttentionReport;

// Means over the queries i of a head, of its weights w_ij over the keys j.
struct HeadStatistics {
  double entropy = 0;  // -sum_j w_ij log2 w_ij, in bits: 0 if one key has it all, log2(keys) if all are alike
  double largest = 0;  // max_j w_ij
  double first = 0;    // w_i0; heads of language models rest there ("attention sink", Xiao et al. 2024)
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

// [{"entropy": 1.5, ...}]; what a head does not have is missing.
std::string to_json(std::span<const HeadStatistics> heads);

}  // namespace qkv::explain

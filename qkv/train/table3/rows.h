#pragma once
// The rows of Table 3 of Vaswani et al. 2017, "Attention Is All You Need": variations of the base model,
// their results in the paper, and the same rows at a smaller scale.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/config.h"

namespace qkv::train {

// Sizes and results as printed. A row's unlisted values are those of base.
struct Table3Row {
  std::string name;   // "A-h1": the group of the paper's table and what the row changes; "base"
  std::string group;  // "A" to "E"; equal to the name for base and big
  int64_t layers = 6, d_model = 512, d_ff = 2048, heads = 8;
  int64_t d_k = 64, d_v = 64;  // per head
  float dropout = 0.1f, label_smoothing = 0.1f;
  bool learned_positions = false;
  int64_t steps = 100'000;
  double perplexity = 0, bleu = 0;  // on newstest2013; perplexity per piece
  std::optional<int64_t> millions;  // parameters, where the paper prints them
};

// All rows in the paper's order: base, A to E, big.
const std::vector<Table3Row>& table3_rows();

// The rows of these names, or groups ("A"), in the paper's order, with base, to which the others are
// compared. No names: base and A to E. Throws UsageError listing the known names for an unknown one.
std::vector<Table3Row> select_table3_rows(std::span<const std::string> names);

// The divisors of all widths: 1 (the paper's sizes), 2, 4, 8, 16. d_model, d_ff, d_k and d_v are divided, so
// that their ratios remain and matrices shrink by the square; numbers of layers and heads remain. Throws
// UsageError for another scale.
void require_table3_scale(int64_t scale);

// The vocabulary, which the embeddings share: 37,000 pieces / scale, so that their part of all parameters
// remains.
int64_t table3_vocabulary(int64_t scale);

// A row's model: post-norm, sinusoids (or learned positions), one table of embeddings. Vocabulary sizes and
// special ids are missing. Throws UsageError for another scale.
models::TransformerConfig table3_config(const Table3Row& row, int64_t scale);

// The row's steps, of which base has `steps`: big has three times as many.
int64_t table3_steps(const Table3Row& row, int64_t steps);

// Positions of all rows: learned ones need a limit, and all rows are to be trained on the same pairs.
inline constexpr int64_t kTable3Positions = 256;

}  // namespace qkv::train

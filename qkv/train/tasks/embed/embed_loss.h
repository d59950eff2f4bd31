#pragma once
// Losses of sentence embeddings. `first` and `second` are the vectors of n pairs of sentences, [n, features];
// row i of both is pair i. Similarity is the cosine. All functions throw ShapeError.

#include <cstdint>
#include <span>

#include "qkv/ops/tape.h"

namespace qkv::train {

// Rows scaled to length 1: x / sqrt(sum(x^2) + features * 1e-12).
Variable unit_rows(const Variable& x);

// The cosines of the pairs: [n].
Variable pair_cosines(const Variable& first, const Variable& second);

struct ContrastiveOptions {
  float temperature = 0.05f;
  // The classes are the pairs in both directions: the mean of the loss and that of the exchanged pairs.
  bool symmetric = false;
  // Equal texts have equal keys; empty: all are different. Another pair with the same first or second text
  // is no negative.
  std::span<const uint64_t> first_keys = {}, second_keys = {};
};

// The contrastive loss with in-batch negatives (van den Oord et al. 2018, equation 4; Henderson et al. 2017):
//   -sum_i log(exp(c_ii / temperature) / sum_j exp(c_ij / temperature)),  c_ij = cos(first_i, second_j) ->
//   [1]
Variable contrastive_loss(const Variable& first, const Variable& second,
                          const ContrastiveOptions& options = {});

// Ranks the pairs of a batch by their scores (CoSENT, Su 2022):
//   log(1 + sum over i, j with scores[i] > scores[j] of exp((c_j - c_i) / temperature)) -> [1]
Variable cosent_loss(const Variable& first, const Variable& second, std::span<const float> scores,
                     float temperature = 0.05f);

// sum_i (c_i - targets[i])^2 (Reimers and Gurevych 2019, section 3) -> [1]; targets in -1 to 1.
Variable cosine_mse_loss(const Variable& first, const Variable& second, std::span<const float> targets);

}  // namespace qkv::train

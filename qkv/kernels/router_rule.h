#pragma once

#include <cstdint>

namespace qkv::kernels {

// How logits z choose a token's experts and weigh their results. p: the softmax of z, or its sigmoids.
struct RouterRule {
  int64_t experts = 0, per_token = 1;
  bool sigmoid = false;
  // Weights are the p of the chosen experts divided by their sum, else these p; times the scale.
  bool normalise = true;
  float scale = 1;
  // The experts of the largest scores are chosen: z, or p with groups or a correction, which is added to p,
  // or to z if `corrects_logits`. Only experts of the best `group_choices` of equal groups are chosen; a
  // group's score is the sum of its `group_scores` largest.
  int64_t groups = 1, group_choices = 1, group_scores = 1;
  bool corrects_logits = false;
  // t of SparseMixer (Liu et al. 2023), with two experts a token, in place of `normalise` and the scale: the
  // weight of an expert of logit z_r is its softmax over the logits z for which (z_r - z) / max(|z|, z_r) is
  // at most 2 t, for the second expert without the first. 0: off.
  float sparse_mixer = 0;
};

}  // namespace qkv::kernels

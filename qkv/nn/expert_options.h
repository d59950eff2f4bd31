#pragma once

#include <cstdint>

namespace qkv::nn {

// Mixtures of experts (experts.h).
struct ExpertOptions {
  int64_t count = 0;      // 0: one feed-forward for all tokens
  int64_t per_token = 2;  // experts of a token, 1 to count
  // Whether the weights of a token's experts sum to 1: a softmax over the logits of these experts. Otherwise
  // a softmax over those of all experts.
  bool normalise = true;
  // The weights are sigmoids of the logits in place of the softmax (DeepSeek-V3), divided by their sum if
  // `normalise`. All weights are multiplied by the scale.
  bool sigmoid = false;
  float scale = 1;
  // Only experts of the best `group_choices` of `groups` equal groups are chosen. A group's score is the sum
  // of its `group_scores` best experts' (DeepSeek-V2: 1, DeepSeek-V3: 2).
  int64_t groups = 1, group_choices = 1, group_scores = 2;
  // SparseMixer (Liu et al. 2023, as in Phi-3.5-MoE), with two experts of a token, t in place of `normalise`:
  // the first is that of the largest logit z_1, with a softmax over the logits z for which
  // (z_1 - z) / max(|z|, z_1) is at most 2 t; the second likewise, without the first. 0: off.
  float sparse_mixer = 0;
  bool router_bias = false;
  // Whether experts are chosen by their probability (or sigmoid) plus a number of each, which does not affect
  // their weights and is not trained by gradients (Wang et al. 2024, "Auxiliary-loss-free load balancing";
  // ERNIE 4.5).
  bool correction_bias = false;
  bool corrects_logits = false;  // it is added to the logits instead (Kolibri)
  // Each expert reads its token multiplied by the weight, in place of its result (Llama 4).
  bool weighs_inputs = false;
  int64_t shared_d_ff = 0;   // inner width of one more expert, which all tokens use; 0: none
  bool shared_gate = false;  // its result is multiplied by sigmoid(x w) (Qwen 2)
  bool shared_mean = false;  // the mean of its result and that of the others, in place of the sum (Command A)

  // Throws UsageError for numbers outside their range.
  void validate() const;

  bool operator==(const ExpertOptions&) const = default;
};

// The maximum number of experts of all layers of a stack.
inline constexpr int64_t kMaxExperts = 32768;

}  // namespace qkv::nn

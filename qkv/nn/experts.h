#pragma once
// Mixtures of experts: feed-forwards of which each token uses a few.

#include <memory>
#include <optional>
#include <vector>

#include "qkv/nn/feed_forward.h"
#include "qkv/ops/general/router.h"
#include "qkv/ops/linear_chosen.h"

namespace qkv::nn {

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

// y = sum over the chosen experts of a token, the best first, of weight_e FFN_e(x) (Shazeer et al.
// 2017, equations 1 to 5, without noise). The logits are x W_r^T + b_r. The rows of a batch are grouped by
// expert, each of which computes its own as one product; those of few tokens on a device, as in decoding, are
// not, so that the host need not wait for the choice. A row's bits do not depend on others.
class Experts final : public FeedForward {
 public:
  // `expert`: of each; the shared one has another width. Throws UsageError for invalid options.
  Experts(const DenseFeedForwardOptions& expert, const ExpertOptions& options);
  // In training, adds to the balancing loss of the context.
  Variable operator()(const Variable& x, ForwardContext& context) const override;
  // "router.weight" [experts, d_model], f32, as small errors change the choice; "experts.0.fc1.weight";
  // "shared_expert.fc1.weight", "shared_gate.weight", "correction.e_score_correction_bias".
  void visit(const ParameterVisitor& visitor) const override;

 private:
  // The results of the experts for x [tokens, d_model], f32 [pairs, d_model], in the order of chosen.
  // weights: those of the pairs, [pairs, 1].
  Variable by_pairs(const Variable& x, const Tensor& chosen, const Variable& weights) const;
  // Likewise, the rows of an expert together; chosen on the host.
  Variable by_experts(const Variable& x, const Tensor& chosen, const Variable& weights,
                      ForwardContext& context) const;

  ExpertOptions options_;
  Parameter router_weight_, router_bias_, correction_bias_;
  LinearWeights router_;
  RouterRule rule_;
  std::vector<DenseFeedForward> experts_;
  std::optional<LinearChoices> inner_, outer_;  // of the experts
  std::optional<DenseFeedForward> shared_;
  std::optional<Linear> shared_gate_;
};

}  // namespace qkv::nn

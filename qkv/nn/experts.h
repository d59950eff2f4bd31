#pragma once
// Mixtures of experts: feed-forwards of which each token uses a few.

#include <memory>
#include <optional>
#include <vector>

#include "qkv/nn/expert_options.h"
#include "qkv/nn/feed_forward.h"
#include "qkv/ops/general/linear_chosen.h"
#include "qkv/ops/general/router.h"

namespace qkv::nn {

// y = sum over the chosen experts of a token, the best first, of weight_e FFN_e(x) (Shazeer et al.
// 2017, equations 1 to 5, without noise). The logits are x W_r^T + b_r. The rows of a batch are grouped by
// expert, each of which computes its own as one product; those of few tokens, as in decoding, are not, so
// that the host need not wait for a device's choice (LinearChoices::suit). A row's bits do not depend on
// others.
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
  std::optional<LinearChoices> inner_, outer_;  // of experts that differ in these weights alone
  std::optional<DenseFeedForward> shared_;
  std::optional<Linear> shared_gate_;
};

}  // namespace qkv::nn

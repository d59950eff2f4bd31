#include "qkv/kernels/reference/router.h"

#include "qkv/kernels/reference/doubles.h"
#include "qkv/kernels/router_row.h"

namespace qkv::kernels::reference {

void choose_experts(const ExpertChoice& a) {
  for (int64_t t = 0; t < a.tokens; ++t)
    RouterRow(a.rule, a.logits + t * a.rule.experts).choose(a.correction, a.chosen + t * a.rule.per_token);
}

void expert_weights(const ExpertWeights& a) {
  const int64_t k = a.rule.per_token;
  for (int64_t t = 0; t < a.tokens; ++t)
    store(RouterRow(a.rule, a.logits + t * a.rule.experts).weights(a.chosen + t * k), a.weights + t * k);
}

void expert_weights_backward(const ExpertWeightsBackward& a) {
  const int64_t k = a.rule.per_token, experts = a.rule.experts;
  for (int64_t t = 0; t < a.tokens; ++t) {
    const RouterRow row(a.rule, a.logits + t * experts);
    store(row.gradient(a.chosen + t * k, a.d_weights + t * k), a.d_logits + t * experts, a.accumulate);
  }
}

}  // namespace qkv::kernels::reference

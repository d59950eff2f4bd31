#include "qkv/kernels/router.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void choose_experts(const RouterRule& rule, const Tensor& logits, const Tensor& correction, Tensor& chosen) {
  count_elements(logits.numel() + chosen.numel());
  backend_of("choose_experts", logits, correction, chosen)
      .choose_experts({.rule = rule,
                       .logits = input(logits),
                       .correction = input(correction),
                       .tokens = logits.rows(),
                       .chosen = address<int32_t>(chosen)});
}

void expert_weights(const RouterRule& rule, const Tensor& logits, const Tensor& chosen, Tensor& weights) {
  count_elements(logits.numel() + 2 * weights.numel());
  backend_of("expert_weights", logits, chosen, weights)
      .expert_weights({.rule = rule,
                       .logits = input(logits),
                       .chosen = input<int32_t>(chosen),
                       .tokens = logits.rows(),
                       .weights = address(weights)});
}

void expert_weights_backward(const RouterRule& rule, const Tensor& logits, const Tensor& chosen,
                             const Tensor& d_weights, GradientSlot& d_logits) {
  count_elements(logits.numel() + 2 * d_weights.numel() + passes(d_logits) * logits.numel());
  backend_of("expert_weights_backward", logits, chosen, d_weights, d_logits.tensor)
      .expert_weights_backward({.rule = rule,
                                .logits = input(logits),
                                .chosen = input<int32_t>(chosen),
                                .tokens = logits.rows(),
                                .d_weights = input(d_weights),
                                .d_logits = address(d_logits.tensor),
                                .accumulate = d_logits.accumulate});
}

}  // namespace qkv::kernels

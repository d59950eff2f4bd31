#pragma once
// Routing of tokens to experts, on tensors of one device.

#include "qkv/kernels/gradient_slot.h"
#include "qkv/kernels/router_rule.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// logits [tokens, experts]; correction [experts], or undefined -> chosen i32 [tokens, per_token].
void choose_experts(const RouterRule& rule, const Tensor& logits, const Tensor& correction, Tensor& chosen);
// -> weights [tokens, per_token].
void expert_weights(const RouterRule& rule, const Tensor& logits, const Tensor& chosen, Tensor& weights);
void expert_weights_backward(const RouterRule& rule, const Tensor& logits, const Tensor& chosen,
                             const Tensor& d_weights, GradientSlot& d_logits);

}  // namespace qkv::kernels

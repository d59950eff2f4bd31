#include "qkv/kernels/router_row.h"

#include <algorithm>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels::cpu {
namespace {

constexpr int64_t kTokensOfPiece = 16;

template <class Body>
void for_tokens(int64_t tokens, const Body& body) {
  parallel_for(tokens, kTokensOfPiece, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) body(t);
  });
}

}  // namespace

void choose_experts(const ExpertChoice& a) {
  for_tokens(a.tokens, [&](int64_t t) {
    RouterRow(a.rule, a.logits + t * a.rule.experts).choose(a.correction, a.chosen + t * a.rule.per_token);
  });
}

void expert_weights(const ExpertWeights& a) {
  const int64_t k = a.rule.per_token;
  for_tokens(a.tokens, [&](int64_t t) {
    const auto weights = RouterRow(a.rule, a.logits + t * a.rule.experts).weights(a.chosen + t * k);
    std::ranges::transform(weights, a.weights + t * k, [](double w) { return static_cast<float>(w); });
  });
}

void expert_weights_backward(const ExpertWeightsBackward& a) {
  const int64_t k = a.rule.per_token, experts = a.rule.experts;
  for_tokens(a.tokens, [&](int64_t t) {
    const auto gradient =
        RouterRow(a.rule, a.logits + t * experts).gradient(a.chosen + t * k, a.d_weights + t * k);
    float* const to = a.d_logits + t * experts;
    std::ranges::transform(gradient, std::span(to, gradient.size()), to, [&](double own, float before) {
      return static_cast<float>(own + (a.accumulate == Accumulate::yes ? double{before} : 0));
    });
  });
}

}  // namespace qkv::kernels::cpu

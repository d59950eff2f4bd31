#pragma once
// Routing of tokens to experts.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "qkv/kernels/router_rule.h"
#include "qkv/ops/tape.h"

namespace qkv {

using kernels::RouterRule;

// The experts of each token, i32 [tokens, per_token], best first: logits f32 [tokens, experts]; correction
// f32 [experts], or undefined. On the device of the logits, for which the host does not wait. Throws
// ShapeError.
Tensor choose_experts(const Tensor& logits, const Tensor& correction, const RouterRule& rule);

// The weights of the chosen experts' results, [tokens, per_token]. Differentiable in the logits. Throws
// ShapeError.
Variable expert_weights(const Variable& logits, const Tensor& chosen, const RouterRule& rule);

// The balancing loss of one forward run (Fedus et al. 2022, equations 4 to 6), as transformers defines it for
// several experts a token and several layers: E sum_e f_e P_e, with the number of experts E, the tokens that
// chose expert e divided by all tokens, f_e, and the mean of its probability, P_e, both over the rows of all
// layers. It is the number of experts a token where these are used equally often.
class RouterBalance {
 public:
  // `factor`: of this loss in the objective of the backward pass.
  explicit RouterBalance(double factor) : factor_(factor) {}

  // 0 before the first layer.
  double loss() const;

 private:
  friend Variable balanced(const Variable& logits, const Tensor& chosen,
                           const std::shared_ptr<RouterBalance>& balance);
  struct Layer {
    double rows = 0;
    std::vector<double> chosen, probability;  // of each expert, summed over the rows
  };
  Layer total() const;

  double factor_;
  std::map<std::string, Layer> layers_;  // by name: a layer that is run again replaces its own
};

// The logits f32 [tokens, experts] themselves; the backward pass adds the gradient of the balancing loss over
// the whole run to theirs. chosen: the experts of each token, i32 [tokens, experts a token], on the host. The
// layer is that of NameScope::current(). A null balance: none. Throws ShapeError, and UsageError for layers
// that differ in their number of experts.
Variable balanced(const Variable& logits, const Tensor& chosen,
                  const std::shared_ptr<RouterBalance>& balance);

}  // namespace qkv

#include "qkv/ops/linear_of.h"

#include <utility>

#include "qkv/base/scope.h"
#include "qkv/ops/linear_product.h"
#include "qkv/ops/profile.h"

namespace qkv {

Variable linear_of(std::function<Variable()> input, const std::vector<Variable>& reads,
                   const LinearWeights& weights, WeightLayout layout) {
  if (!input) throw UsageError("linear_of: expected a function, found none");
  if (!Tape::records()) return linear(input(), weights, layout);
  Tensor y;
  bool records = false;
  std::vector<Tape::Input> inputs(reads.begin(), reads.end());
  {
    const Tape::Pause pause;
    const Tape own;  // tells whether the input depends on a parameter
    const Variable x = input();
    const ProfileScope profile("linear");
    const LinearProduct product("linear", x, weights, layout);
    y = product.forward();
    records = product.records();
    const std::vector<Tape::Input> of_product = product.inputs();
    inputs.insert(inputs.end(), of_product.begin() + 1, of_product.end());  // without x
  }
  if (!records) return y;
  return Tape::record(
      "linear", std::move(y), std::move(inputs),
      [input = std::move(input), weights, layout, where = NameScope::current()](const Tensor& dy) {
        const Tape::Pause pause;
        const NameScope scope(where);
        Tape own;
        const Variable x = input();
        const bool passes = x.requires_grad();
        const Variable leaf = passes ? Variable::parameter(x.value()) : x;
        LinearProduct("linear", leaf, weights, layout).backward(dy);
        if (passes) own.backward(x, leaf.grad());
      });
}

}  // namespace qkv

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/nn/forward_context.h"
#include "qkv/nn/parameter.h"
#include "qkv/ops/recompute.h"

namespace qkv::nn {

// run(context), which applies `layer` to `inputs`, recomputing intermediate results in the backward pass if
// the context says so. `run` is copied and must own its inputs.
template <class Layer, class Run>
Variable run_layer(ForwardContext& context, const Layer& layer, const std::vector<Variable>& inputs,
                   const Run& run) {
  if (!context.recompute || !Tape::records()) return run(context);
  ForwardContext again = context;  // same dropout sites
  again.observer = {};
  Tensor value;
  {
    const Tape::Pause pause;
    value = run(context).value();
  }
  std::vector<Tape::Input> reads(inputs.begin(), inputs.end());
  layer.visit([&](const std::string&, const Parameter& parameter) {
    reads.emplace_back(parameter.variable);
    if (const LowRank* update = parameter.weight().low_rank()) {
      reads.emplace_back(update->a);
      reads.emplace_back(update->b);
    }
  });
  return recomputed(std::move(value), std::move(reads), [run, again] {
    ForwardContext own = again;
    return run(own);
  });
}

}  // namespace qkv::nn

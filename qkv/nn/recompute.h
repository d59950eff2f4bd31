#pragma once

#include <utility>

#include "qkv/nn/forward_context.h"
#include "qkv/ops/recompute.h"

namespace qkv::nn {

// layer(context), recomputing intermediate results in the backward pass if the context says so. `layer` is
// copied and must own its inputs.
template <class Layer>
Variable run_layer(ForwardContext& context, const Layer& layer) {
  if (!context.recompute || !Tape::records()) return layer(context);
  ForwardContext again = context;  // same dropout sites
  again.observer = {};
  Tensor value;
  {
    const Tape::Pause pause;
    value = layer(context).value();
  }
  return recomputed(std::move(value), [layer, again] {
    ForwardContext own = again;
    return layer(own);
  });
}

}  // namespace qkv::nn

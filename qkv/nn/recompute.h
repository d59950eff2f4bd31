#pragma once

#include <utility>

#include "qkv/nn/forward_context.h"
#include "qkv/ops/recompute.h"

namespace qkv::nn {

// layer(pass), without keeping what it computes on the way where the pass says so. `layer` is copied, and
// holds what it works on.
template <class Layer>
Variable run_layer(ForwardContext& context, const Layer& layer) {
  if (!context.recompute || !Tape::records()) return layer(context);
  ForwardContext again = context;  // the same places for dropout
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

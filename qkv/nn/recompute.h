#pragma once

#include <utility>

#include "qkv/nn/pass.h"
#include "qkv/ops/recompute.h"

namespace qkv::nn {

// layer(pass), without keeping what it computes on the way where the pass says so. `layer` is copied, and
// holds what it works on.
template <class Layer>
Variable run_layer(Pass& pass, const Layer& layer) {
  if (!pass.recompute || !Tape::records()) return layer(pass);
  Pass again = pass;  // the same places for dropout
  again.observer = {};
  Tensor value;
  {
    const Tape::Pause pause;
    value = layer(pass).value();
  }
  return recomputed(std::move(value), [layer, again] {
    Pass own = again;
    return layer(own);
  });
}

}  // namespace qkv::nn

#pragma once
// The attention weights of one text, in a model that reads nothing else.

#include <string>
#include <vector>

#include "qkv/nn/forward_context.h"
#include "qkv/search/capture.h"

namespace qkv::pipelines {

struct TextAttention {
  std::vector<std::string> tokens;  // as the vocabulary spells them: queries and keys alike
  std::vector<search::CapturedAttention> attentions;
};

// Keeps what a pass over one text sees. `attention` must outlive the pass.
inline nn::AttentionObserver observer_of(TextAttention& attention) {
  return [&attention](const std::string& name, const std::vector<Tensor>& weights) {
    attention.attentions.push_back({name, weights.front()});
  };
}

}  // namespace qkv::pipelines

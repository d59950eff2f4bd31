#pragma once
// The projection of hidden states to logits over a vocabulary.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "qkv/kernels/kinds.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/parameter.h"
#include "qkv/ops/linear_cross_entropy.h"

namespace qkv::nn {

// A layer before the projection (Devlin et al. 2018, as in BERT's code): norm(activation(x W_1^T + b_1)).
struct LogitsLayer {
  int64_t width = 0;  // of its result; 0: d_model
  kernels::Activation activation = kernels::Activation::gelu_exact;
  bool bias = true;
  float epsilon = 1e-5f;  // of the layer norm
  bool norm_bias = true;

  bool operator==(const LogitsLayer&) const = default;
};

struct LogitsOptions {
  int64_t d_model = 0, vocabulary = 0;
  Initializer initializer = {Initializer::Kind::normal, 0.02f};  // of the module's own table
  bool bias = false;
  float scale = 1;    // of the hidden states
  float softcap = 0;  // 0: off. Otherwise a logit z becomes softcap tanh(z / softcap) (Gemma 2)
  std::optional<LogitsLayer> layer = {};

  // Throws UsageError for a size below 1, a scale that is 0 or infinite, and a negative or infinite softcap.
  void validate() const;
};

// z = (scale x) W^T + b, then the softcap: x [tokens, d_model], the hidden states or the layer's result, W
// [vocabulary, d_model], b [vocabulary]. With a layer, the columns of W are its width.
// Throws the errors of linear().
class Logits {
 public:
  // W is `tied`, the table of an embedding; undefined: W is a parameter of this module.
  explicit Logits(const LogitsOptions& options, const Weight& tied = {});

  // f32 [tokens, d_model] -> f32 [tokens, vocabulary].
  Variable operator()(const Variable& hidden) const;
  // The loss of labels i32 [tokens], by chunks of rows: linear_cross_entropy().
  CrossEntropyResult cross_entropy(const Variable& hidden, const Tensor& labels,
                                   const CrossEntropyOptions& options) const;
  // ln p[labels[i]] of row i of the hidden states, by chunks of rows. `each` is called with the
  // log-probabilities of each row, [vocabulary]. Throws DataError for a label outside the vocabulary.
  using EachRow = std::function<void(std::span<const float>)>;
  std::vector<float> log_probabilities(const Tensor& hidden, std::span<const int32_t> labels,
                                       const EachRow& each = {}) const;
  // The logits of these tokens only, [tokens, ids], from a copy of their rows of W and b: for inference.
  // Throws UsageError for an id outside the vocabulary.
  Logits select(std::span<const int32_t> ids) const;

  Device device() const { return weights_.weights().front().values().device(); }
  // "weight" unless it is tied, and "bias"; of the layer "dense.weight", "dense.bias" and
  // "layer_norm.weight".
  void visit(const ParameterVisitor& visitor) const;

 private:
  struct Layer {
    explicit Layer(const LogitsOptions& options);
    Parameter weight, bias;
    LinearWeights weights;
    Norm norm;
  };
  // scale x, of hidden states.
  Variable projected(const Variable& hidden, WeightLayout layout = WeightLayout::in_place) const;

  LogitsOptions options_;
  std::optional<Layer> layer_;
  Parameter table_, bias_;  // undefined if tied, and without a bias
  LinearWeights weights_;
};

}  // namespace qkv::nn

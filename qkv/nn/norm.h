#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkv/kernels/kinds.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/parameter.h"
#include "qkv/tensor/ragged.h"

namespace qkv::nn {

using kernels::NormKind;

struct NormOptions {
  int64_t features = 0;
  NormKind kind = NormKind::layer;
  float epsilon = 1e-5f;
  bool bias = true;    // of a layer norm
  bool weight = true;  // none: the norm is not scaled (OLMo)
  // The parts of `features` numbers in a row: each has a mean, a variance and a weight of its own. Several
  // have no bias, and their weights are parameters of their own: "0.weight", "1.weight", ...
  int64_t parts = 1;
};

class Norm {
 public:
  explicit Norm(const NormOptions& options);

  Variable operator()(const Variable& x) const;
  // norm(x + dropout(sublayer)) in one pass. Overwrites `sublayer`.
  Variable add_norm(const Variable& x, const Variable& sublayer, const kernels::Dropout& dropout) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  // With the factors, each part alone.
  Variable normalised(const Variable& x) const;
  // The weight of one part, and the bias; ones and zeros for a norm without them.
  Variable factors(Device device) const;
  Variable shift(Device device) const;

  NormKind kind_;
  int64_t features_, parts_;
  Parameter weight_, bias_;              // undefined without them
  std::vector<Parameter> part_weights_;  // of several parts
  float epsilon_;
};

// Where a residual block has norms: after the sum (Vaswani et al. 2017), before the sublayer (Xiong et al.
// 2020), after the sublayer and before the sum (OLMo 2), or before and after the sublayer (Gemma 2).
enum class NormPlacement { post, pre, output, both };

// The residual connection and the norms around a sublayer f:
//   post: norm(x + dropout(f(x)))               pre: x + dropout(f(norm(x)))
//   output: x + dropout(output_norm(f(x)))      both: x + dropout(output_norm(f(norm(x))))
// f's result is multiplied by `scale` before it is added, and with `layer_scale` also by a learned factor for
// each feature (LayerScale, Touvron et al. 2021, "Going deeper with Image Transformers", eq. 4). In training,
// f's result for a sequence is dropped as a whole with the probability `drop_path`, or else multiplied by 1 /
// (1 - drop_path): stochastic depth (Huang et al. 2016), per sequence.
class Residual {
 public:
  struct Options {
    NormOptions norm = {};
    NormPlacement placement = NormPlacement::post;
    bool normed = true;  // pre-norm only: else f reads x itself
    float scale = 1;
    bool layer_scale = false;
    float dropout = 0;
    float drop_path = 0;
  };
  explicit Residual(const Options& options);

  // x [tokens, features]; `offsets`: its sequences, unused outside training.
  template <class Function>
  Variable operator()(const Variable& x, const Offsets& offsets, ForwardContext& context,
                      const Function& f) const {
    return add(x, f(input(x)), offsets, context);
  }
  // The two halves: f's argument, and the block's result.
  Variable input(const Variable& x) const;
  Variable add(const Variable& x, const Variable& sublayer, const Offsets& offsets,
               ForwardContext& context) const;

  // name + "_layer_norm" and name + "_output_norm", those that the placement has, and name + "_layer_scale".
  void visit(const ParameterVisitor& visitor, const std::string& name) const;

 private:
  std::optional<Norm> norm_, output_norm_;
  Parameter layer_scale_;  // [features]; undefined: none
  NormPlacement placement_;
  float scale_, dropout_, drop_path_;
};

}  // namespace qkv::nn

#pragma once

#include "qkv/nn/parameter.h"
#include "qkv/nn/pass.h"
#include "qkv/ops/functions.h"

namespace qkv::nn {

// (x - mean) / sqrt(var + epsilon) * weight + bias over the features (Ba et al. 2016).
class LayerNorm {
 public:
  explicit LayerNorm(int64_t features, float epsilon = 1e-5f);

  Variable operator()(const Variable& x) const;
  // The norm of x + dropout(branch), in one pass. The branch's numbers are used up.
  Variable of_sum(const Variable& x, const Variable& branch, const Dropout& dropout) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  Parameter weight_, bias_;
  float epsilon_;
};

// Where a block normalises: after adding to the residual stream (Vaswani et al. 2017), or before its function
// (Xiong et al. 2020).
enum class NormPlacement { post, pre };

// The frame of every sublayer f, its norm included:
//   post: norm(x + dropout(f(x)))        pre: x + dropout(f(norm(x)))
class Residual {
 public:
  struct Options {
    int64_t features = 0;
    NormPlacement placement = NormPlacement::post;
    float dropout = 0;
    float epsilon = 1e-5f;
  };
  explicit Residual(const Options& options)
      : norm_(options.features, options.epsilon), placement_(options.placement), dropout_(options.dropout) {}

  template <class Function>
  Variable operator()(const Variable& x, Pass& pass, const Function& f) const {
    if (placement_ == NormPlacement::post) {
      const Variable branch = f(x);
      return norm_.of_sum(x, branch, pass.dropout(dropout_));
    }
    const Variable branch = f(norm_(x));
    return residual(x, branch, pass.dropout(dropout_));
  }

  const LayerNorm& norm() const { return norm_; }

 private:
  LayerNorm norm_;
  NormPlacement placement_;
  float dropout_;
};

}  // namespace qkv::nn

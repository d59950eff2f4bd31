#pragma once

#include "qkv/kernels/norm_kind.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/parameter.h"
#include "qkv/ops/norm.h"
#include "qkv/tensor/ragged.h"

namespace qkv::nn {

using kernels::NormKind;

struct NormOptions {
  int64_t features = 0;
  NormKind kind = NormKind::layer;
  float epsilon = 1e-5f;
};

class Norm {
 public:
  explicit Norm(const NormOptions& options);

  Variable operator()(const Variable& x) const;
  // norm(x + dropout(sublayer)) in one pass. Overwrites `sublayer`.
  Variable add_norm(const Variable& x, const Variable& sublayer, const Dropout& dropout) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  NormKind kind_;
  Parameter weight_, bias_;  // rms has no bias
  float epsilon_;
};

// Position of the norm: after the residual addition (Vaswani et al. 2017) or before the sublayer (Xiong et
// al. 2020).
enum class NormPlacement { post, pre };

// Residual connection and norm around a sublayer f:
//   post: norm(x + dropout(f(x)))        pre: x + dropout(f(norm(x)))
// In training, f's result for a sequence is dropped as a whole with the probability `drop_path`, or else
// multiplied by 1 / (1 - drop_path): stochastic depth (Huang et al. 2016), per sequence.
class Residual {
 public:
  struct Options {
    NormOptions norm = {};
    NormPlacement placement = NormPlacement::post;
    float dropout = 0;
    float drop_path = 0;
  };
  explicit Residual(const Options& options)
      : norm_(options.norm),
        placement_(options.placement),
        dropout_(options.dropout),
        drop_path_(options.drop_path) {}

  // x [tokens, features]; `offsets`: its sequences, unused outside training.
  template <class Function>
  Variable operator()(const Variable& x, const Offsets& offsets, ForwardContext& context,
                      const Function& f) const {
    if (placement_ == NormPlacement::post) {
      const Variable sublayer = maybe_dropped(f(x), offsets, context);
      return norm_.add_norm(x, sublayer, context.dropout(dropout_));
    }
    const Variable sublayer = maybe_dropped(f(norm_(x)), offsets, context);
    return residual(x, sublayer, context.dropout(dropout_));
  }

  const Norm& norm() const { return norm_; }

 private:
  Variable maybe_dropped(const Variable& sublayer, const Offsets& offsets, ForwardContext& context) const;

  Norm norm_;
  NormPlacement placement_;
  float dropout_, drop_path_;
};

}  // namespace qkv::nn

#pragma once
// A weight matrix for linear maps and table look-ups.

#include <memory>
#include <utility>

#include "qkv/ops/variable.h"
#include "qkv/tensor/quantized_tensor.h"

namespace qkv {

// A low-rank update of a weight [outputs, inputs] (LoRA, Hu et al. 2022, section 4.1): a product with the
// weight becomes y = x W^T + b + scale (x A^T) B^T. Both matrices are f32 and may be trained while the weight
// is frozen, in any dtype.
struct LowRank {
  Variable a;       // [rank, inputs]; undefined: no update
  Variable b;       // [outputs, rank]
  float scale = 1;  // alpha / rank

  bool defined() const { return a.defined(); }
};

// Values [rows, cols] of f32, bf16, f16, or i8 with scales f32 [rows]. Copies are handles of the same weight;
// values may be set later. Only f32 weights can be trained; a frozen weight of any dtype passes a product's
// gradient to its input.
class Weight {
 public:
  Weight() = default;  // defined() is false
  // An f32 weight. (Implicit, so that variables and tensors can be passed to operations as they are.)
  Weight(Variable values) : values_(std::move(values)) {}         // NOLINT(google-explicit-constructor)
  Weight(Tensor values) : Weight(Variable(std::move(values))) {}  // NOLINT(google-explicit-constructor)
  // `scales` must have a value while `values` are i8. `low_rank` may be set and removed later; linear maps
  // add it, table look-ups do not.
  Weight(Variable values, Variable scales, std::shared_ptr<const LowRank> low_rank = nullptr)
      : values_(std::move(values)), scales_(std::move(scales)), low_rank_(std::move(low_rank)) {}
  // A constant.
  explicit Weight(const QuantizedTensor& value)
      : values_(value.values), scales_(value.scales.defined() ? Variable(value.scales) : Variable()) {}

  bool defined() const { return values_.defined(); }
  bool requires_grad() const { return values_.requires_grad(); }
  // The values as a variable, which gradients flow to.
  const Variable& variable() const { return values_; }
  const Tensor& values() const { return values_.value(); }
  // The scales of i8 values; undefined for other dtypes.
  const Tensor& scales() const;
  const Variable& scale_variable() const { return scales_; }
  QuantizedTensor value() const { return {values_.value(), scales()}; }
  // Null: none.
  const LowRank* low_rank() const { return low_rank_ && low_rank_->defined() ? low_rank_.get() : nullptr; }
  DType dtype() const { return values().dtype(); }
  const Shape& shape() const { return values().shape(); }
  // Increases whenever values or scales change.
  uint64_t version() const { return values_.version() + (scales_.defined() ? scales_.version() : 0); }

 private:
  Variable values_, scales_;
  std::shared_ptr<const LowRank> low_rank_;
};

inline const Tensor& Weight::scales() const {
  static const Tensor none;
  return scales_.defined() ? scales_.value() : none;
}

}  // namespace qkv

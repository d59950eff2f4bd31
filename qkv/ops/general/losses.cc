#include "qkv/ops/general/losses.h"

#include <algorithm>

#include "qkv/kernels/label_loss.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

constexpr const char* kCrossEntropy = "cross_entropy";

// Checks the labels; returns the sum of their weights.
double check_labels(const Variable& logits, const Tensor& labels, const ClassLossOptions& options) {
  const int64_t classes = logits.shape().rank() > 0 ? logits.shape()[-1] : 0;
  const Tensor& weights = options.class_weights;
  const Shape items{
      logits.shape().extents().first(static_cast<size_t>(std::max(0, logits.shape().rank() - 1)))};
  if (classes < 1 || labels.shape() != items) {
    throw ShapeError(concat(kCrossEntropy, ": expected logits [..., classes] and labels [...], found ",
                            logits.shape(), " and ", name_of(labels.dtype()), " ", labels.shape()));
  }
  if (weights.defined() && (weights.shape() != Shape{classes} || weights.dtype() != DType::f32)) {
    throw ShapeError(concat(kCrossEntropy, ": expected class_weights f32 [", classes, "], found ",
                            name_of(weights.dtype()), " ", weights.shape()));
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw UsageError(
        concat(kCrossEntropy, ": expected label_smoothing from 0 to 1, found ", options.label_smoothing));
  }
  const Tensor on_host = to_host(labels);
  const Tensor weights_on_host = weights.defined() ? to_host(weights) : Tensor();
  double count = 0;
  for (const int32_t label : on_host.values<int32_t>()) {
    if (label == options.ignored_label) continue;
    if (label < 0 || label >= classes) {
      throw DataError(concat(kCrossEntropy, ": label ", label, " is not one of ", classes, " classes"));
    }
    count += weights.defined() ? static_cast<double>(weights_on_host.at(label)) : 1.0;
  }
  return count;
}

Variable reduced(const Variable& losses, Reduction reduction, double count) {
  if (reduction == Reduction::none) return losses;
  Variable total = sum(losses);
  if (reduction == Reduction::sum) return total;
  return total * (count > 0 ? static_cast<float>(1 / count) : 0.0f);
}

}  // namespace

Variable cross_entropy(const Variable& input, const Tensor& labels_of_any_width,
                       const ClassLossOptions& options) {
  const ProfileScope profile(kCrossEntropy);
  const Variable logits = contiguous_f32(kCrossEntropy, input);
  const Tensor labels = as_ids(kCrossEntropy, "labels", labels_of_any_width);
  const double count = check_labels(logits, labels, options);
  const Device device = logits.value().device();
  const kernels::LabelTargets targets{.labels = from_host(labels, device),
                                      .class_weights = from_host(options.class_weights, device),
                                      .ignored = options.ignored_label,
                                      .smoothing = options.label_smoothing};
  Tensor losses = Tensor::empty(labels.shape(), DType::f32, device);
  Tensor log_sum_exp = empty_like(losses);
  kernels::label_loss(logits.value(), targets, losses, log_sum_exp);
  if (!Tape::records({logits})) return reduced(losses, options.reduction, count);
  const Variable recorded = Tape::record(kCrossEntropy, losses, {logits}, [=](const Tensor& d_losses) {
    GradientSlot slot = logits.gradient_slot();
    kernels::label_loss_backward(logits.value(), targets, log_sum_exp, d_losses, slot.tensor,
                                 slot.accumulate);
  });
  return reduced(recorded, options.reduction, count);
}

Variable mse(const Variable& one, const Variable& other, Reduction reduction) {
  const Variable x = contiguous_f32("mse", one), y = contiguous_f32("mse", other);
  if (x.shape() != y.shape()) throw ShapeError(concat("mse: shapes differ: ", x.shape(), " and ", y.shape()));
  const Variable difference = x - y;
  return reduced(difference * difference, reduction, static_cast<double>(x.shape().numel()));
}

}  // namespace qkv

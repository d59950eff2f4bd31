#include "qkv/kernels/label_loss.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
namespace {

LabelLoss label_loss_of(const Tensor& logits, const LabelTargets& targets) {
  return {.logits = address(logits),
          .labels = address<int32_t>(targets.labels),
          .class_weights = address(targets.class_weights),
          .rows = logits.rows(),
          .cols = logits.cols(),
          .ignored = targets.ignored,
          .smoothing = targets.smoothing};
}

}  // namespace

void label_loss(const Tensor& logits, const LabelTargets& targets, Tensor& losses, Tensor& log_sum_exp) {
  count_elements(logits.numel());
  backend_of("cross_entropy", logits, targets.labels, targets.class_weights, losses, log_sum_exp)
      .label_loss({.loss = label_loss_of(logits, targets),
                   .losses = address(losses),
                   .log_sum_exp = address(log_sum_exp)});
}

void label_loss_backward(const Tensor& logits, const LabelTargets& targets, const Tensor& log_sum_exp,
                         const Tensor& d_losses, Tensor& d_logits, Accumulate accumulate) {
  count_elements((1 + memory_passes(accumulate)) * logits.numel());
  backend_of("cross_entropy", logits, targets.labels, targets.class_weights, log_sum_exp, d_losses, d_logits)
      .label_loss_backward({.loss = label_loss_of(logits, targets),
                            .log_sum_exp = address(log_sum_exp),
                            .d_losses = address(d_losses),
                            .d_logits = address(d_logits),
                            .accumulate = accumulate});
}

void softmax_backward(bool log, const Tensor& y, const Tensor& dy, Tensor& dx, Accumulate accumulate) {
  count_elements((2 + memory_passes(accumulate)) * y.numel());
  backend_of("softmax", y, dy, dx)
      .softmax_backward({.log = log,
                         .y = address(y),
                         .dy = address(dy),
                         .rows = y.rows(),
                         .cols = y.cols(),
                         .dx = address(dx),
                         .accumulate = accumulate});
}

}  // namespace qkv::kernels

#include "qkv/kernels/loss.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void cross_entropy(CrossEntropyTensors a) {
  count_elements(2 * a.logits.numel());
  backend_of("cross_entropy", a.logits, a.bias, a.labels, a.loss, a.nll)
      .cross_entropy({.logits = address(a.logits),
                      .bias = input(a.bias),
                      .labels = input<int32_t>(a.labels),
                      .rows = a.logits.rows(),
                      .cols = a.logits.cols(),
                      .smoothing = a.smoothing,
                      .grad_scale = a.grad_scale,
                      .loss = address(a.loss),
                      .nll = address(a.nll)});
}

void log_softmax(const Tensor& logits, const Tensor& bias, Tensor& y) {
  count_elements(2 * logits.numel());
  backend_of("log_softmax", logits, bias, y)
      .log_softmax(address(logits), address(bias), address(y), logits.rows(), logits.cols());
}

void softmax(const Tensor& x, Tensor& y) {
  count_elements(2 * x.numel());
  backend_of("softmax", x, y).softmax(address(x), address(y), x.rows(), x.cols());
}

}  // namespace qkv::kernels

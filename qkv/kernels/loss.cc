#include "qkv/kernels/loss.h"

#include <cstring>

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

std::vector<ScoredToken> best_tokens(const Tensor& logits, int64_t count) {
  count_elements(2 * logits.numel());
  static_assert(sizeof(ScoredToken) == 8);
  Tensor best = Tensor::empty({logits.rows(), count}, DType::i64, logits.device());
  backend_of("best_tokens", logits)
      .best_tokens({.logits = input(logits),
                    .rows = logits.rows(),
                    .cols = logits.cols(),
                    .count = count,
                    .best = static_cast<ScoredToken*>(address<void>(best))});
  std::vector<ScoredToken> result(static_cast<size_t>(best.numel()));
  const Tensor host = to_host(best);
  std::memcpy(static_cast<void*>(result.data()), host.data<int64_t>(), result.size() * sizeof(ScoredToken));
  return result;
}

void softmax(const Tensor& x, Tensor& y) {
  count_elements(2 * x.numel());
  backend_of("softmax", x, y).softmax(address(x), address(y), x.rows(), x.cols());
}

}  // namespace qkv::kernels

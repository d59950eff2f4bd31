#include "qkv/kernels/loss.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void log_softmax(const Tensor& logits, const Tensor& bias, const Tensor& y) {
  backend_of("log_softmax", logits, bias, y)
      .log_softmax(address(logits), address(bias), address(y), logits.rows(), logits.cols());
}

void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                 int64_t cols) {
  cpu_backend().log_softmax(logits, bias, log_probabilities, rows, cols);
}

void softmax(const Tensor& x, const Tensor& y) {
  backend_of("softmax", x, y).softmax(address(x), address(y), x.rows(), x.cols());
}

}  // namespace qkv::kernels

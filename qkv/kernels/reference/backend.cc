#include "qkv/kernels/backend.h"

#include "qkv/base/error.h"
#include "qkv/kernels/reference/loss.h"
#include "qkv/kernels/reference/memory.h"
#include "qkv/kernels/reference/norm.h"

namespace qkv::kernels {
namespace {

[[noreturn]] void missing(const char* kernel) {
  throw UsageError(concat("device reference: ", kernel, " is not written yet"));
}

class ReferenceBackend final : public Backend {
 public:
  DeviceMemory* memory() const override { return &reference::memory(); }
  void attention_forward(const AttentionShape&, const AttentionInput&,
                         const AttentionOutput&) const override {
    missing("attention_forward");
  }
  void attention_backward(const AttentionShape&, const AttentionInput&, const float*, int64_t, const float*,
                          const float*, int64_t, const AttentionGradients&) const override {
    missing("attention_backward");
  }
  void attention_cached(const CachedAttention&) const override { missing("attention_cached"); }
  void rotary(const Rotary&) const override { missing("rotary"); }
  void embedding_forward(const EmbeddingForward&) const override { missing("embedding_forward"); }
  void embedding_backward(const float*, const int32_t*, float, int64_t, int64_t, int64_t, const Dropout&,
                          float*) const override {
    missing("embedding_backward");
  }
  void norm_forward(const NormInput& input, const NormOutput& output) const override {
    NormInput in = input;
    in.x = reference::readable(input.x);
    in.residual = reference::readable(input.residual);
    in.weight = reference::readable(input.weight);
    in.bias = reference::readable(input.bias);
    reference::norm_forward(in, {.sum = reference::readable(output.sum),
                                 .y = reference::readable(output.y),
                                 .mean = reference::readable(output.mean),
                                 .rstd = reference::readable(output.rstd)});
  }
  void norm_backward(const NormBackward&) const override { missing("norm_backward"); }
  void dropout_backward(const float*, float*, int64_t, int64_t, const Dropout&, Accumulate) const override {
    missing("dropout_backward");
  }
  void activate(Activation, const float*, float*, int64_t, int64_t, const Dropout&) const override {
    missing("activate");
  }
  void activate_backward(Activation, const float*, const float*, float*, int64_t, int64_t, const Dropout&,
                         Accumulate) const override {
    missing("activate_backward");
  }
  void relu_backward(const float*, const float*, float, float*, int64_t) const override {
    missing("relu_backward");
  }
  void gated(const Gated&, float*) const override { missing("gated"); }
  void gated_backward(const Gated&, const float*, const GradientRows&, const GradientRows&) const override {
    missing("gated_backward");
  }
  void cross_entropy(const CrossEntropy&) const override { missing("cross_entropy"); }
  void log_softmax(const float*, const float*, float*, int64_t, int64_t) const override {
    missing("log_softmax");
  }
  void softmax(const float* x, float* y, int64_t rows, int64_t cols) const override {
    reference::softmax(reference::readable(x), reference::readable(y), rows, cols);
  }
  void copy(const float*, float*, int64_t, Accumulate) const override { missing("copy"); }
  void scale(const float*, float, float*, int64_t, Accumulate) const override { missing("scale"); }
  void add(const float*, const float*, float*, int64_t) const override { missing("add"); }
  void column_sums(const float*, int64_t, int64_t, int64_t, float*, Accumulate) const override {
    missing("column_sums");
  }
  void transpose(const void*, int64_t, int64_t, int64_t, size_t, void*) const override {
    missing("transpose");
  }
  double sum_of_squares(const float*, int64_t) const override { missing("sum_of_squares"); }
  bool all_finite(const float*, int64_t) const override { missing("all_finite"); }
};

}  // namespace

const Backend& reference_backend() {
  static constinit const ReferenceBackend instance;
  return instance;
}

}  // namespace qkv::kernels

#pragma once
// A self-attention problem to time: sequences of one length, inputs, and buffers for the results.

#include <cmath>
#include <cstdint>
#include <vector>

#include "qkv/base/philox.h"
#include "qkv/kernels/cpu/kernels.h"
#include "qkv/tensor/tensor.h"

namespace qkv::bench {

inline Tensor random(int64_t count, uint64_t seed) {
  RandomStream stream(seed);
  Tensor numbers = Tensor::empty({count});
  for (float& x : numbers.values()) x = stream.uniform() * 2 - 1;
  return numbers;
}

// Queries, keys and values are columns of one matrix, as in a fused projection.
class AttentionProblem {
 public:
  AttentionProblem(int64_t length, int64_t sequences, int64_t heads, int64_t width, bool causal)
      : model_(heads * width),
        projections_(random(sequences * length * 3 * model_, 1)),
        grad_output_(random(sequences * length * model_, 2)),
        output_(Tensor::zeros(grad_output_.shape())),
        gradients_(Tensor::zeros(projections_.shape())),
        log_sum_exp_(Tensor::zeros({sequences * length * heads})) {
    for (int64_t s = 0; s <= sequences; ++s) offsets_.push_back(static_cast<int32_t>(s * length));
    shape = {.sequences = sequences,
             .query_offsets = offsets_.data(),
             .key_offsets = offsets_.data(),
             .heads = heads,
             .d_k = width,
             .d_v = width,
             .scale = 1 / std::sqrt(static_cast<float>(width)),
             .causal = causal};
  }
  AttentionProblem(const AttentionProblem&) = delete;
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  void forward() {
    kernels::cpu::attention_forward(
        shape, input(),
        {.output = output_.data(), .output_stride = model_, .log_sum_exp = log_sum_exp_.data()});
  }
  // Call after forward().
  void backward() {
    float* g = gradients_.data();
    kernels::cpu::attention_backward(shape, input(), output_.data(), model_, log_sum_exp_.data(),
                                     grad_output_.data(), model_,
                                     {.query = g,
                                      .key = g + model_,
                                      .value = g + 2 * model_,
                                      .query_stride = 3 * model_,
                                      .key_stride = 3 * model_,
                                      .value_stride = 3 * model_});
  }

  kernels::AttentionShape shape;

 private:
  kernels::AttentionInput input() const {
    const float* q = projections_.data();
    return {.query = q,
            .key = q + model_,
            .value = q + 2 * model_,
            .query_stride = 3 * model_,
            .key_stride = 3 * model_,
            .value_stride = 3 * model_};
  }

  int64_t model_;
  Tensor projections_, grad_output_, output_, gradients_, log_sum_exp_;
  std::vector<int32_t> offsets_;
};

}  // namespace qkv::bench

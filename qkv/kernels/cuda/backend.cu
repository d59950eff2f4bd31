// The table of kernels, which the program finds in the library that it opens for --device cuda.

#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/library.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/cuda/products.h"

namespace qkv::kernels::cuda {
namespace {

constexpr Backend kBackend{
    .memory = []() -> DeviceMemory* { return &memory(); },
    .pack_transposed = pack_transposed,
    .pack_plain = pack_plain,
    .has_fast_bf16 = [] { return true; },
    .view = view,
    .matmul = matmul,
    .choices = choices,
    .matmul_chosen = matmul_chosen,
    .chosen_rows = [] { return kFewRows; },
    .matmul_transposed_a = matmul_transposed_a,
    .round_to_bf16 = round_to_bf16,
    .round_to_f16 = round_to_f16,
    .quantize_rows = quantize_rows,
    .widen_rows = widen_rows,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_key_group = attention_key_group,
    .attention_cached = attention_cached,
    .store_cached = store_cached,
    .load_cached = load_cached,
    .copy_cached = copy_cached,
    .rotary = rotary,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .dropout_backward = dropout_backward,
    .activate = activate,
    .activate_backward = activate_backward,
    .relu_backward = relu_backward,
    .gated = gated,
    .gated_backward = gated_backward,
    .cross_entropy = cross_entropy,
    .log_softmax = log_softmax,
    .best_tokens = best_tokens,
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .label_loss = label_loss,
    .label_loss_backward = label_loss_backward,
    .choose_experts = choose_experts,
    .expert_weights = expert_weights,
    .expert_weights_backward = expert_weights_backward,
    .binary = binary,
    .sum_axis = sum_axis,
    .batched_product = batched_product,
    .segment_mean = segment_mean,
    .segment_mean_backward = segment_mean_backward,
    .segment_max = segment_max,
    .segment_max_backward = segment_max_backward,
    .copy = copy,
    .scale = scale,
    .scale_by = scale_by,
    .add = add,
    .column_sums = column_sums,
    .transpose = transpose,
    .adam = adam,
    .sgd = sgd,
    .rmsprop = rmsprop,
    .adagrad = adagrad,
    .adafactor = adafactor,
    .sum_of_squares = sum_of_squares,
    .total = total,
    .all_finite = all_finite,
};

constexpr CudaLibrary kLibrary{.select = select_gpu, .table = &kBackend};

}  // namespace
}  // namespace qkv::kernels::cuda

extern "C" __attribute__((visibility("default"))) const qkv::kernels::CudaLibrary* qkv_cuda_library() {
  return &qkv::kernels::cuda::kLibrary;
}

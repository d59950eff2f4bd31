#pragma once
// The CUDA kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend.h"
#include "qkv/kernels/cuda/memory.h"

namespace qkv::kernels::cuda {

KernelOf<&Backend::pack_transposed> pack_transposed;
KernelOf<&Backend::pack_plain> pack_plain;
KernelOf<&Backend::view> view;
KernelOf<&Backend::matmul> matmul;
KernelOf<&Backend::choices> choices;
KernelOf<&Backend::matmul_chosen> matmul_chosen;
KernelOf<&Backend::matmul_transposed_a> matmul_transposed_a;
KernelOf<&Backend::round_to_bf16> round_to_bf16;
KernelOf<&Backend::round_to_f16> round_to_f16;
KernelOf<&Backend::quantize_rows> quantize_rows;
KernelOf<&Backend::widen_rows> widen_rows;
KernelOf<&Backend::attention_forward> attention_forward;
KernelOf<&Backend::attention_backward> attention_backward;
KernelOf<&Backend::attention_key_group> attention_key_group;
KernelOf<&Backend::attention_cached> attention_cached;
KernelOf<&Backend::store_cached> store_cached;
KernelOf<&Backend::load_cached> load_cached;
KernelOf<&Backend::copy_cached> copy_cached;
KernelOf<&Backend::rotary> rotary;
KernelOf<&Backend::embedding_forward> embedding_forward;
KernelOf<&Backend::embedding_backward> embedding_backward;
KernelOf<&Backend::norm_forward> norm_forward;
KernelOf<&Backend::norm_backward> norm_backward;
KernelOf<&Backend::dropout_backward> dropout_backward;
KernelOf<&Backend::activate> activate;
KernelOf<&Backend::activate_backward> activate_backward;
KernelOf<&Backend::relu_backward> relu_backward;
KernelOf<&Backend::gated> gated;
KernelOf<&Backend::gated_backward> gated_backward;
KernelOf<&Backend::cross_entropy> cross_entropy;
KernelOf<&Backend::log_softmax> log_softmax;
KernelOf<&Backend::best_tokens> best_tokens;
KernelOf<&Backend::softmax> softmax;
KernelOf<&Backend::softmax_backward> softmax_backward;
KernelOf<&Backend::label_loss> label_loss;
KernelOf<&Backend::label_loss_backward> label_loss_backward;
KernelOf<&Backend::choose_experts> choose_experts;
KernelOf<&Backend::expert_weights> expert_weights;
KernelOf<&Backend::expert_weights_backward> expert_weights_backward;
KernelOf<&Backend::binary> binary;
KernelOf<&Backend::sum_axis> sum_axis;
KernelOf<&Backend::batched_product> batched_product;
KernelOf<&Backend::segment_mean> segment_mean;
KernelOf<&Backend::segment_mean_backward> segment_mean_backward;
KernelOf<&Backend::segment_max> segment_max;
KernelOf<&Backend::segment_max_backward> segment_max_backward;
KernelOf<&Backend::copy> copy;
KernelOf<&Backend::scale> scale;
KernelOf<&Backend::scale_by> scale_by;
KernelOf<&Backend::total> total;
KernelOf<&Backend::add> add;
KernelOf<&Backend::column_sums> column_sums;
KernelOf<&Backend::transpose> transpose;
KernelOf<&Backend::adam> adam;
KernelOf<&Backend::sgd> sgd;
KernelOf<&Backend::rmsprop> rmsprop;
KernelOf<&Backend::adagrad> adagrad;
KernelOf<&Backend::adafactor> adafactor;
KernelOf<&Backend::sum_of_squares> sum_of_squares;
KernelOf<&Backend::all_finite> all_finite;

}  // namespace qkv::kernels::cuda

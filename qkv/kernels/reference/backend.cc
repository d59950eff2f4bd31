// The reference kernels as a backend: converts device addresses to readable ones, and calls the loops in this
// folder.

#include "qkv/kernels/backend.h"

#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "qkv/kernels/reference/activation.h"
#include "qkv/kernels/reference/attention.h"
#include "qkv/kernels/reference/broadcast.h"
#include "qkv/kernels/reference/elementwise.h"
#include "qkv/kernels/reference/embedding.h"
#include "qkv/kernels/reference/label_loss.h"
#include "qkv/kernels/reference/loss.h"
#include "qkv/kernels/reference/matmul.h"
#include "qkv/kernels/reference/memory.h"
#include "qkv/kernels/reference/norm.h"
#include "qkv/kernels/reference/optimizer.h"
#include "qkv/kernels/reference/product.h"
#include "qkv/kernels/reference/rotary.h"
#include "qkv/kernels/reference/segments.h"
#include "qkv/kernels/reference/weights.h"

namespace qkv::kernels {
namespace {

using reference::readable;

// Converts all these addresses to readable ones, in place.
template <class... Addresses>
void make_readable(Addresses&... addresses) {
  ((addresses = readable(addresses)), ...);
}

// The addresses in each struct of arguments.
void convert(Matrix& a) { make_readable(a.data); }
void convert(MutableMatrix& a) { make_readable(a.data); }
void convert(WeightRows& a) { make_readable(a.data, a.scales); }
void convert(AttentionShape& a) {
  make_readable(a.keep.data, a.bias.data, a.alibi_slopes, a.relative.data, a.sinks);
}
void convert(AttentionInput& a) { make_readable(a.query, a.key, a.value); }
void convert(AttentionOutput& a) {
  make_readable(a.output, a.log_sum_exp, a.capture.weights, a.capture.scores, a.capture.top_weights,
                a.capture.top_keys);
}
void convert(AttentionGradients& a) { make_readable(a.query, a.key, a.value, a.bias, a.relative, a.sinks); }
// Blocks of a cache are converted where they are read.
void convert(CachedAttention& a) {
  make_readable(a.query, a.alibi_slopes, a.relative.data, a.sinks, a.output, a.weights);
}
void convert(CacheStore& a) { make_readable(a.keys, a.values); }
void convert(CacheLoad& a) { make_readable(a.to); }
void convert(Rotary& a) { make_readable(a.x, a.y, a.cosines, a.sines, a.positions); }
void convert(EmbeddingForward& a) {
  make_readable(a.table.data, a.table.scales, a.ids, a.positions, a.position, a.y);
}
void convert(NormInput& a) { make_readable(a.x, a.residual, a.weight, a.bias); }
void convert(NormOutput& a) { make_readable(a.sum, a.y, a.mean, a.rstd); }
void convert(NormBackward& a) {
  make_readable(a.z, a.weight, a.mean, a.rstd, a.dy, a.dz, a.residual_gradient, a.weight_gradient,
                a.bias_gradient);
}
void convert(Gated& a) { make_readable(a.gate, a.x); }
void convert(GradientRows& a) { make_readable(a.data); }
void convert(CrossEntropy& a) { make_readable(a.logits, a.bias, a.labels, a.loss, a.nll); }
void convert(SoftmaxBackward& a) { make_readable(a.y, a.dy, a.dx); }
void convert(LabelLoss& a) { make_readable(a.logits, a.labels, a.class_weights); }
void convert(LabelLossForward& a) {
  convert(a.loss);
  make_readable(a.losses, a.log_sum_exp);
}
void convert(LabelLossBackward& a) {
  convert(a.loss);
  make_readable(a.log_sum_exp, a.d_losses, a.d_logits);
}
void convert(Broadcast& a) { make_readable(a.x, a.y, a.z); }
void convert(AxisSum& a) { make_readable(a.x, a.y); }
void convert(BatchedProduct& a) { make_readable(a.x, a.y, a.z); }
void convert(SegmentMean& a) { make_readable(a.x, a.y); }
void convert(SegmentMeanBackward& a) { make_readable(a.dy, a.dx); }
void convert(SegmentMax& a) { make_readable(a.x, a.y, a.rows); }
void convert(SegmentMaxBackward& a) { make_readable(a.dy, a.rows, a.dx); }
void convert(ParameterUpdate& a) {
  make_readable(a.value, a.gradient, a.average);
  for (float*& state : a.state) make_readable(state);
}

// An argument of a kernel with readable addresses; numbers and options are unchanged.
template <class T>
T converted(T argument) {
  if constexpr (std::is_pointer_v<T>) {
    make_readable(argument);
  } else if constexpr (requires { convert(argument); }) {
    convert(argument);
  }
  return argument;
}
template <class T>
std::vector<T> converted(std::span<const T> arguments) {
  std::vector<T> all(arguments.begin(), arguments.end());
  for (T& argument : all) convert(argument);
  return all;
}

// Calls a kernel of this folder with readable addresses.
template <class Kernel>
struct Converting;
template <class Result, class... Arguments>
struct Converting<Result(Arguments...)> {
  template <Result (*kernel)(Arguments...)>
  static Result call(Arguments... arguments) {
    return kernel(converted(arguments)...);
  }
};
template <auto entry, KernelOf<entry>* kernel>
constexpr KernelOf<entry>* kConverting = &Converting<KernelOf<entry>>::template call<kernel>;

std::unique_ptr<const PreparedMatrix> pack_transposed(std::span<const Matrix> blocks, DType operands) {
  return reference::pack_transposed(converted(blocks), operands);
}

std::unique_ptr<const PreparedMatrix> pack_plain(std::span<const Matrix> blocks, DType operands) {
  return reference::pack_plain(converted(blocks), operands);
}

std::unique_ptr<const PreparedMatrix> view(std::span<const WeightRows> blocks) {
  return reference::view(converted(blocks));
}

void matmul(const Matrix& a, const PreparedMatrix& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate) {
  reference::matmul(converted(a), static_cast<const reference::RightHandSide&>(b), readable(bias),
                    converted(c), accumulate);
}

void attention_backward(const AttentionShape& shape, const AttentionInput& input, const float* /*output*/,
                        int64_t /*output_stride*/, const float* /*log_sum_exp*/, const float* grad_output,
                        int64_t grad_output_stride, const AttentionGradients& gradients) {
  reference::attention_backward(converted(shape), converted(input), readable(grad_output), grad_output_stride,
                                converted(gradients));
}

constexpr Backend kReferenceBackend{
    .memory = []() -> DeviceMemory* { return &reference::memory(); },
    .pack_transposed = pack_transposed,
    .pack_plain = pack_plain,
    .has_fast_bf16 = [] { return true; },  // as fast as everything else here
    .view = view,
    .matmul = matmul,
    .matmul_transposed_a = kConverting<&Backend::matmul_transposed_a, reference::matmul_transposed_a>,
    .round_to_bf16 = kConverting<&Backend::round_to_bf16, reference::round_to_bf16>,
    .round_to_f16 = kConverting<&Backend::round_to_f16, reference::round_to_f16>,
    .quantize_rows = kConverting<&Backend::quantize_rows, reference::quantize_rows>,
    .widen_rows = kConverting<&Backend::widen_rows, reference::widen_rows>,
    .attention_forward = kConverting<&Backend::attention_forward, reference::attention_forward>,
    .attention_backward = attention_backward,
    .attention_key_group = [] { return int64_t{1}; },  // a hidden key adds an exact zero
    .attention_cached = kConverting<&Backend::attention_cached, reference::attention_cached>,
    .store_cached = kConverting<&Backend::store_cached, reference::store_cached>,
    .load_cached = kConverting<&Backend::load_cached, reference::load_cached>,
    .copy_cached = reference::copy_cached,
    .rotary = kConverting<&Backend::rotary, reference::rotary>,
    .embedding_forward = kConverting<&Backend::embedding_forward, reference::embedding_forward>,
    .embedding_backward = kConverting<&Backend::embedding_backward, reference::embedding_backward>,
    .norm_forward = kConverting<&Backend::norm_forward, reference::norm_forward>,
    .norm_backward = kConverting<&Backend::norm_backward, reference::norm_backward>,
    .dropout_backward = kConverting<&Backend::dropout_backward, reference::dropout_backward>,
    .activate = kConverting<&Backend::activate, reference::activate>,
    .activate_backward = kConverting<&Backend::activate_backward, reference::activate_backward>,
    .relu_backward = kConverting<&Backend::relu_backward, reference::relu_backward>,
    .gated = kConverting<&Backend::gated, reference::gated>,
    .gated_backward = kConverting<&Backend::gated_backward, reference::gated_backward>,
    .cross_entropy = kConverting<&Backend::cross_entropy, reference::cross_entropy>,
    .log_softmax = kConverting<&Backend::log_softmax, reference::log_softmax>,
    .softmax = kConverting<&Backend::softmax, reference::softmax>,
    .softmax_backward = kConverting<&Backend::softmax_backward, reference::softmax_backward>,
    .label_loss = kConverting<&Backend::label_loss, reference::label_loss>,
    .label_loss_backward = kConverting<&Backend::label_loss_backward, reference::label_loss_backward>,
    .binary = kConverting<&Backend::binary, reference::binary>,
    .sum_axis = kConverting<&Backend::sum_axis, reference::sum_axis>,
    .batched_product = kConverting<&Backend::batched_product, reference::batched_product>,
    .segment_mean = kConverting<&Backend::segment_mean, reference::segment_mean>,
    .segment_mean_backward = kConverting<&Backend::segment_mean_backward, reference::segment_mean_backward>,
    .segment_max = kConverting<&Backend::segment_max, reference::segment_max>,
    .segment_max_backward = kConverting<&Backend::segment_max_backward, reference::segment_max_backward>,
    .copy = kConverting<&Backend::copy, reference::copy>,
    .scale = kConverting<&Backend::scale, reference::scale>,
    .add = kConverting<&Backend::add, reference::add>,
    .column_sums = kConverting<&Backend::column_sums, reference::column_sums>,
    .transpose = kConverting<&Backend::transpose, reference::transpose>,
    .adam = kConverting<&Backend::adam, reference::adam>,
    .sgd = kConverting<&Backend::sgd, reference::sgd>,
    .rmsprop = kConverting<&Backend::rmsprop, reference::rmsprop>,
    .adagrad = kConverting<&Backend::adagrad, reference::adagrad>,
    .adafactor = kConverting<&Backend::adafactor, reference::adafactor>,
    .sum_of_squares = kConverting<&Backend::sum_of_squares, reference::sum_of_squares>,
    .all_finite = kConverting<&Backend::all_finite, reference::all_finite>,
};

}  // namespace

const Backend& reference_backend() { return kReferenceBackend; }

}  // namespace qkv::kernels

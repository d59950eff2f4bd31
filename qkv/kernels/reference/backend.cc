// The reference kernels as a backend: converts device addresses to readable ones, and submits the loops of
// this folder to the stream.

#include "qkv/kernels/backend.h"

#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/kernels/reference/activation.h"
#include "qkv/kernels/reference/attention/attention.h"
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
#include "qkv/kernels/reference/router.h"
#include "qkv/kernels/reference/segments.h"
#include "qkv/kernels/reference/stream.h"
#include "qkv/kernels/reference/weights.h"

namespace qkv::kernels {
namespace {

using reference::readable;

// Copies of the arrays of arguments that lie on the host: the caller may free or change his when the call has
// returned.
using HostCopies = std::vector<std::shared_ptr<const void>>;

template <class T>
std::span<T> keep(std::span<T> array, HostCopies& kept) {
  const auto copy = std::make_shared<std::vector<std::remove_const_t<T>>>(array.begin(), array.end());
  kept.push_back(copy);
  return *copy;
}
template <class T>
void keep(const T*& array, int64_t count, HostCopies& kept) {
  if (array != nullptr) array = keep(std::span(array, static_cast<size_t>(count)), kept).data();
}

// Converts addresses to readable ones, in place.
template <class T>
void convert(T*& address) {
  address = readable(address);
}
void convert(Elements& a) { convert(a.data); }
void convert(MutableElements& a) { convert(a.data); }
template <class... Addresses>
void make_readable(Addresses&... addresses) {
  (convert(addresses), ...);
}

// The addresses in each struct of arguments; with HostCopies, its arrays on the host too.
void convert(Matrix& a) { make_readable(a.data); }
void convert(MutableMatrix& a) { make_readable(a.data); }
void convert(WeightRows& a) { make_readable(a.data, a.scales); }
void convert(AttentionShape& a, HostCopies& kept) {
  make_readable(a.keep.data, a.bias.data, a.alibi_slopes, a.relative.data, a.sinks);
  keep(a.query_offsets, a.sequences + 1, kept);
  keep(a.key_offsets, a.sequences + 1, kept);
}
void convert(AttentionInput& a) { make_readable(a.query, a.key, a.value); }
void convert(AttentionOutput& a) {
  make_readable(a.output, a.log_sum_exp, a.capture.weights, a.capture.scores, a.capture.top_weights,
                a.capture.top_keys);
}
void convert(AttentionGradients& a) { make_readable(a.query, a.key, a.value, a.bias, a.relative, a.sinks); }
// Blocks of a cache are converted where they are read.
void convert(CacheRow& a, HostCopies& kept) {
  a.blocks = keep(a.blocks, kept);
  a.numbers = keep(a.numbers, kept);
}
void convert(std::span<const CacheRow>& rows, HostCopies& kept) {
  std::vector<CacheRow> all(rows.begin(), rows.end());
  for (CacheRow& row : all) convert(row, kept);
  rows = keep(std::span<const CacheRow>(all), kept);
}
void convert(CachedAttention& a, HostCopies& kept) {
  make_readable(a.query, a.alibi_slopes, a.relative.data, a.sinks, a.output, a.weights);
  keep(a.weight_offsets, std::ssize(a.rows), kept);
  convert(a.rows, kept);
}
void convert(CacheStore& a, HostCopies& kept) {
  make_readable(a.keys, a.values);
  convert(a.to, kept);
}
void convert(CacheLoad& a, HostCopies& kept) {
  make_readable(a.to);
  convert(a.from, kept);
}
void convert(CacheCopy& a, HostCopies& kept) {
  convert(a.from, kept);
  convert(a.to, kept);
}
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
void convert(BestTokens& a) { make_readable(a.logits, a.best); }
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
void convert(ExpertChoice& a) { make_readable(a.logits, a.correction, a.chosen); }
void convert(ExpertWeights& a) { make_readable(a.logits, a.chosen, a.weights); }
void convert(ExpertWeightsBackward& a) { make_readable(a.logits, a.chosen, a.d_weights, a.d_logits); }
void convert(Broadcast& a) { make_readable(a.x, a.y, a.z); }
void convert(AxisSum& a) { make_readable(a.x, a.y); }
void convert(BatchedProduct& a) { make_readable(a.x, a.y, a.z); }
void convert(Segments& a, HostCopies& kept) { keep(a.offsets, a.segments + 1, kept); }
void convert(SegmentMean& a, HostCopies& kept) {
  convert(a.segments, kept);
  make_readable(a.x, a.y);
}
void convert(SegmentMeanBackward& a, HostCopies& kept) {
  convert(a.segments, kept);
  make_readable(a.dy, a.dx);
}
void convert(SegmentMax& a, HostCopies& kept) {
  convert(a.segments, kept);
  make_readable(a.x, a.y, a.rows);
}
void convert(SegmentMaxBackward& a, HostCopies& kept) {
  convert(a.segments, kept);
  make_readable(a.dy, a.rows, a.dx);
}
void convert(ParameterUpdate& a) {
  make_readable(a.value, a.gradient, a.average);
  for (float*& state : a.state) make_readable(state);
}

// An argument of a kernel with readable addresses and arrays of its own; numbers and options are unchanged.
template <class T>
T converted(T argument, HostCopies& kept) {
  if constexpr (requires { convert(argument, kept); }) {
    convert(argument, kept);
  } else if constexpr (requires { convert(argument); }) {
    convert(argument);
  }
  return argument;
}
template <class T>
std::span<const T> converted(std::span<const T> arguments, HostCopies& kept) {
  std::vector<T> all(arguments.begin(), arguments.end());
  for (T& argument : all) convert(argument);
  return keep(std::span<const T>(all), kept);
}

// Submits a kernel of this folder with these arguments, converted.
template <class Kernel, class... Arguments>
void submit(const Kernel& kernel, HostCopies kept, const Arguments&... arguments) {
  auto all = std::make_tuple(converted(arguments, kept)...);
  reference::stream().submit(
      [kernel, kept = std::move(kept), all = std::move(all)] { std::apply(kernel, all); });
}

template <class Kernel>
struct Submitting;
template <class... Arguments>
struct Submitting<void(Arguments...)> {
  template <void (*kernel)(Arguments...)>
  static void call(Arguments... arguments) {
    submit(kernel, {}, arguments...);
  }
};
template <auto entry, KernelOf<entry>* kernel>
constexpr KernelOf<entry>* kSubmitting = &Submitting<KernelOf<entry>>::template call<kernel>;

// A right-hand side, which is packed by the stream and outlives the work that reads it.
struct Prepared final : PreparedMatrix {
  std::shared_ptr<reference::RightHandSide> side = std::make_shared<reference::RightHandSide>();
};

template <auto pack>
std::unique_ptr<const PreparedMatrix> prepare(std::span<const Matrix> blocks, DType operands) {
  auto prepared = std::make_unique<Prepared>();
  submit([side = prepared->side](std::span<const Matrix> all, DType dtype) { *side = pack(all, dtype); }, {},
         blocks, operands);
  return prepared;
}

std::unique_ptr<const PreparedMatrix> view(std::span<const WeightRows> blocks) {
  auto prepared = std::make_unique<Prepared>();
  HostCopies kept;
  *prepared->side = reference::view(converted(blocks, kept));
  return prepared;
}

void matmul(const Matrix& a, const PreparedMatrix& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate) {
  submit([side = static_cast<const Prepared&>(b).side](
             const Matrix& left, const float* added, const MutableMatrix& result,
             Accumulate how) { reference::matmul(left, *side, added, result, how); },
         {}, a, bias, c, accumulate);
}

// The sides of views, and the readable addresses of their biases.
struct Choices final : PreparedMatrix {
  std::vector<std::shared_ptr<const reference::RightHandSide>> sides;
  std::vector<const float*> biases;
};

std::unique_ptr<const PreparedMatrix> choices(std::span<const PreparedMatrix* const> views,
                                              std::span<const float* const> biases) {
  auto all = std::make_unique<Choices>();
  for (const PreparedMatrix* one : views) all->sides.push_back(static_cast<const Prepared*>(one)->side);
  for (const float* bias : biases) all->biases.push_back(readable(bias));
  return all;
}

void matmul_chosen(const Matrix& a, const PreparedMatrix& prepared, const int32_t* chosen,
                   const MutableMatrix& c) {
  const auto& all = static_cast<const Choices&>(prepared);
  submit(
      [sides = all.sides, biases = all.biases](const Matrix& left, const int32_t* choice,
                                               const MutableMatrix& result) {
        for (int64_t r = 0; r < result.rows; ++r) {
          const auto own = static_cast<size_t>(choice[r]);
          reference::matmul(
              {left.data + r / (result.rows / left.rows) * left.stride, 1, left.cols, left.stride},
              *sides[own], biases[own], {result.data + r * result.stride, 1, result.cols, result.stride},
              Accumulate::no);
        }
      },
      {}, a, chosen, c);
}

void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                       const AttentionOutput& output) {
  AttentionOutput there = output;
  HostCopies kept;
  keep(there.capture.offsets, shape.heads * shape.query_offsets[shape.sequences], kept);
  submit([](const auto&... all) { reference::attention_forward(all...); }, std::move(kept), shape, input,
         there);
}

void attention_backward(const AttentionShape& shape, const AttentionInput& input, Elements /*output*/,
                        int64_t /*output_stride*/, const float* /*log_sum_exp*/, Elements grad_output,
                        int64_t grad_output_stride, const AttentionGradients& gradients) {
  submit([](const auto&... all) { reference::attention_backward(all...); }, {}, shape, input, grad_output,
         grad_output_stride, gradients);
}

constexpr Backend kReferenceBackend{
    .memory = []() -> DeviceMemory* { return &reference::memory(); },
    .pack_transposed = prepare<reference::pack_transposed>,
    .pack_plain = prepare<reference::pack_plain>,
    .has_fast_bf16 = [] { return true; },  // as fast as everything else here
    .view = view,
    .matmul = matmul,
    .choices = choices,
    .matmul_chosen = matmul_chosen,
    .chosen_rows = [] { return int64_t{8}; },
    .matmul_transposed_a = kSubmitting<&Backend::matmul_transposed_a, reference::matmul_transposed_a>,
    .round_to_bf16 = kSubmitting<&Backend::round_to_bf16, reference::round_to_bf16>,
    .round_to_f16 = kSubmitting<&Backend::round_to_f16, reference::round_to_f16>,
    .quantize_rows = kSubmitting<&Backend::quantize_rows, reference::quantize_rows>,
    .widen_rows = kSubmitting<&Backend::widen_rows, reference::widen_rows>,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_key_group = [] { return int64_t{1}; },  // a hidden key adds an exact zero
    .attention_cached = kSubmitting<&Backend::attention_cached, reference::attention_cached>,
    .store_cached = kSubmitting<&Backend::store_cached, reference::store_cached>,
    .load_cached = kSubmitting<&Backend::load_cached, reference::load_cached>,
    .copy_cached = kSubmitting<&Backend::copy_cached, reference::copy_cached>,
    .rotary = kSubmitting<&Backend::rotary, reference::rotary>,
    .embedding_forward = kSubmitting<&Backend::embedding_forward, reference::embedding_forward>,
    .embedding_backward = kSubmitting<&Backend::embedding_backward, reference::embedding_backward>,
    .norm_forward = kSubmitting<&Backend::norm_forward, reference::norm_forward>,
    .norm_backward = kSubmitting<&Backend::norm_backward, reference::norm_backward>,
    .dropout_backward = kSubmitting<&Backend::dropout_backward, reference::dropout_backward>,
    .activate = kSubmitting<&Backend::activate, reference::activate>,
    .activate_backward = kSubmitting<&Backend::activate_backward, reference::activate_backward>,
    .relu_backward = kSubmitting<&Backend::relu_backward, reference::relu_backward>,
    .gated = kSubmitting<&Backend::gated, reference::gated>,
    .gated_backward = kSubmitting<&Backend::gated_backward, reference::gated_backward>,
    .cross_entropy = kSubmitting<&Backend::cross_entropy, reference::cross_entropy>,
    .log_softmax = kSubmitting<&Backend::log_softmax, reference::log_softmax>,
    .best_tokens = kSubmitting<&Backend::best_tokens, reference::best_tokens>,
    .softmax = kSubmitting<&Backend::softmax, reference::softmax>,
    .softmax_backward = kSubmitting<&Backend::softmax_backward, reference::softmax_backward>,
    .label_loss = kSubmitting<&Backend::label_loss, reference::label_loss>,
    .label_loss_backward = kSubmitting<&Backend::label_loss_backward, reference::label_loss_backward>,
    .choose_experts = kSubmitting<&Backend::choose_experts, reference::choose_experts>,
    .expert_weights = kSubmitting<&Backend::expert_weights, reference::expert_weights>,
    .expert_weights_backward =
        kSubmitting<&Backend::expert_weights_backward, reference::expert_weights_backward>,
    .binary = kSubmitting<&Backend::binary, reference::binary>,
    .sum_axis = kSubmitting<&Backend::sum_axis, reference::sum_axis>,
    .batched_product = kSubmitting<&Backend::batched_product, reference::batched_product>,
    .segment_mean = kSubmitting<&Backend::segment_mean, reference::segment_mean>,
    .segment_mean_backward = kSubmitting<&Backend::segment_mean_backward, reference::segment_mean_backward>,
    .segment_max = kSubmitting<&Backend::segment_max, reference::segment_max>,
    .segment_max_backward = kSubmitting<&Backend::segment_max_backward, reference::segment_max_backward>,
    .copy = kSubmitting<&Backend::copy, reference::copy>,
    .scale = kSubmitting<&Backend::scale, reference::scale>,
    .scale_by = kSubmitting<&Backend::scale_by, reference::scale_by>,
    .add = kSubmitting<&Backend::add, reference::add>,
    .column_sums = kSubmitting<&Backend::column_sums, reference::column_sums>,
    .transpose = kSubmitting<&Backend::transpose, reference::transpose>,
    .adam = kSubmitting<&Backend::adam, reference::adam>,
    .sgd = kSubmitting<&Backend::sgd, reference::sgd>,
    .rmsprop = kSubmitting<&Backend::rmsprop, reference::rmsprop>,
    .adagrad = kSubmitting<&Backend::adagrad, reference::adagrad>,
    .adafactor = kSubmitting<&Backend::adafactor, reference::adafactor>,
    .sum_of_squares = kSubmitting<&Backend::sum_of_squares, reference::sum_of_squares>,
    .total = kSubmitting<&Backend::total, reference::total>,
    .all_finite = kSubmitting<&Backend::all_finite, reference::all_finite>,
};

}  // namespace

const Backend& reference_backend() { return kReferenceBackend; }

}  // namespace qkv::kernels

#pragma once
// A device: its memory and a table of kernels. Functions of the same names in qkv/kernels/*.h take tensors
// and select the backend by their device.
//
// Arguments are valid: callers have checked shapes, ids and strides. Pointers are device addresses. On the
// host are: the argument structs, query_offsets and key_offsets of AttentionShape, those of Segments,
// `offsets` of AttentionCapture, `weight_offsets` of CachedAttention, and the rows of a cache (not the blocks
// that they name). Arrays without a stride are contiguous. A row of a result has the same bits whatever the
// other rows are.
//
// Elements are f32 or bf16 (backend/elements.h): activations and their gradients; other numbers are f32. The
// CPU's kernels take f32 alone, but for copy().
//
// Kernels, copies and the freeing of memory are in order: a device may queue them (a stream). Arrays on the
// host are read before a kernel returns. Nothing is returned on the host: copies from the device are the only
// points where it waits, and device_waits() (tensor/device_memory.h) counts them.

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "qkv/kernels/backend/attention.h"
#include "qkv/kernels/backend/broadcast.h"
#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/backend/embedding.h"
#include "qkv/kernels/backend/gated.h"
#include "qkv/kernels/backend/label_loss.h"
#include "qkv/kernels/backend/loss.h"
#include "qkv/kernels/backend/matmul.h"
#include "qkv/kernels/backend/norm.h"
#include "qkv/kernels/backend/optimizer.h"
#include "qkv/kernels/backend/product.h"
#include "qkv/kernels/backend/rotary.h"
#include "qkv/kernels/backend/router.h"
#include "qkv/kernels/backend/segments.h"
#include "qkv/kernels/dropout.h"
#include "qkv/kernels/kinds.h"
#include "qkv/tensor/device_memory.h"

namespace qkv::kernels {

struct Backend {
  // Null: tensors are in host memory.
  DeviceMemory* (*memory)();

  // Products. A right-hand side is prepared once for any number of products. From f32 blocks [n_i, k],
  // stacked: their transpose [k, sum n_i], for y = x W^T, or unchanged [sum n_i, k], for dx = dy W. It is a
  // copy: the blocks may change afterwards. `operands`: f32, or bf16, to which both sides of the product are
  // rounded.
  std::unique_ptr<const PreparedMatrix> (*pack_transposed)(std::span<const Matrix> blocks, DType operands);
  std::unique_ptr<const PreparedMatrix> (*pack_plain)(std::span<const Matrix> blocks, DType operands);
  bool (*has_fast_bf16)();  // instructions for bf16 operands
  // The transpose of weights of one dtype, read in place. Products with i8 weights round the rows of a to 8
  // bits, with a zero point, and sum integers exactly.
  std::unique_ptr<const PreparedMatrix> (*view)(std::span<const WeightRows> blocks);
  // c (+)= a b + bias; bias [columns of b] may be null.
  void (*matmul)(const Matrix& a, const PreparedMatrix& b, const float* bias, const MutableMatrix& c,
                 Accumulate accumulate);
  // Views, alike in dtypes and shapes, of which each row is multiplied by one. Biases: one each, which may be
  // null. The views must outlive the result.
  std::unique_ptr<const PreparedMatrix> (*choices)(std::span<const PreparedMatrix* const> views,
                                                   std::span<const float* const> biases);
  // c[r] = a[r / (rows of c / rows of a)] times view chosen[r], with its bias: few rows, whose choice the
  // host does not know.
  void (*matmul_chosen)(const Matrix& a, const PreparedMatrix& choices, const int32_t* chosen,
                        const MutableMatrix& c);
  // The rows of a up to which it is faster than the copy of the choice to the host, and a product for each
  // view; 0: never.
  int64_t (*chosen_rows)();
  // c (+)= a^T b, the gradient of a weight. The order of summation depends on the number of rows only.
  void (*matmul_transposed_a)(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                              DType operands);

  // Weight dtype conversions (kernels/weights.h).
  void (*round_to_bf16)(const float* from, BFloat16* to, int64_t count);
  void (*round_to_f16)(const float* from, Float16* to, int64_t count);
  void (*quantize_rows)(const float* from, int64_t rows, int64_t cols, int8_t* to, float* scales);
  void (*widen_rows)(const WeightRows& from, float* to);

  // Attention. In the backward pass, output and log_sum_exp come from the forward pass; grad_output has the
  // layout of output, with grad_output_stride.
  void (*attention_forward)(const AttentionShape& shape, const AttentionInput& input,
                            const AttentionOutput& output);
  void (*attention_backward)(const AttentionShape& shape, const AttentionInput& input, Elements output,
                             int64_t output_stride, const float* log_sum_exp, Elements grad_output,
                             int64_t grad_output_stride, const AttentionGradients& gradients);
  // Sums over keys restart at multiples of this number of keys in a sequence, so that keys that no query
  // attends to can be dropped in groups of this size without changing any bit.
  int64_t (*attention_key_group)();
  void (*attention_cached)(const CachedAttention& attention);
  void (*store_cached)(const CacheStore& arguments);
  void (*load_cached)(const CacheLoad& arguments);
  void (*copy_cached)(const CacheCopy& arguments);

  // Positions.
  void (*rotary)(const Rotary& arguments);

  // Tables. table_gradient[ids[t]] += factor * dropout(dy[t]), for each row in the order of t: the bits do
  // not depend on threads. table_gradient [vocabulary, cols] must be initialised (to zeros at first).
  void (*embedding_forward)(const EmbeddingForward& arguments);
  void (*embedding_backward)(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                             int64_t vocabulary, const Dropout& dropout, float* table_gradient);

  // Norms and residual sums.
  void (*norm_forward)(const NormInput& input, const NormOutput& output);
  void (*norm_backward)(const NormBackward& arguments);
  // dx (+)= dropout(dy), the residual's part of a sum's gradient. dx may be dy.
  void (*dropout_backward)(Elements dy, MutableElements dx, int64_t rows, int64_t cols,
                           const Dropout& dropout, Accumulate accumulate);

  // Activations.
  // y = dropout(activation(x)), elementwise; [rows, cols]. x may be y.
  void (*activate)(Activation activation, Elements x, MutableElements y, int64_t rows, int64_t cols,
                   const Dropout& dropout);
  // dx (+)= activation'(x) * dropout(dy). dx may be dy with Accumulate::no.
  void (*activate_backward)(Activation activation, Elements x, Elements dy, MutableElements dx, int64_t rows,
                            int64_t cols, const Dropout& dropout, Accumulate accumulate);
  // dx = factor * dy where y > 0, else 0: the gradient of y = dropout(max(x, 0)), computed without x, because
  // dropped elements are 0 too; factor = dropout.scale(). dx may be dy.
  void (*relu_backward)(Elements y, Elements dy, float factor, MutableElements dx, int64_t count);
  // y [rows, cols], contiguous.
  void (*gated)(const Gated& arguments, MutableElements y);
  // d_gate (+)= activation'(gate) * x * dropout(dy), d_x (+)= activation(gate) * dropout(dy); dy [rows,
  // cols].
  void (*gated_backward)(const Gated& arguments, Elements dy, const GradientRows& d_gate,
                         const GradientRows& d_x);

  // Losses.
  void (*cross_entropy)(const CrossEntropy& arguments);
  // log_probabilities[r, c] = logits[r, c] + bias[c] - log sum exp of the row; may be in place; bias may be
  // null.
  void (*log_softmax)(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                      int64_t cols);
  // Of search: only the best tokens of a row are copied to the host.
  void (*best_tokens)(const BestTokens& arguments);
  // y = softmax(x) by row; may be in place.
  void (*softmax)(const float* x, float* y, int64_t rows, int64_t cols);
  void (*softmax_backward)(const SoftmaxBackward& arguments);
  void (*label_loss)(const LabelLossForward& arguments);
  void (*label_loss_backward)(const LabelLossBackward& arguments);

  // Routing of tokens to experts.
  void (*choose_experts)(const ExpertChoice& arguments);
  void (*expert_weights)(const ExpertWeights& arguments);
  void (*expert_weights_backward)(const ExpertWeightsBackward& arguments);

  // Arithmetic with broadcasting, sums, and products of computed values.
  void (*binary)(const Broadcast& arguments);
  void (*sum_axis)(const AxisSum& arguments);
  void (*batched_product)(const BatchedProduct& arguments);

  // Pooling.
  void (*segment_mean)(const SegmentMean& arguments);
  void (*segment_mean_backward)(const SegmentMeanBackward& arguments);
  void (*segment_max)(const SegmentMax& arguments);
  void (*segment_max_backward)(const SegmentMaxBackward& arguments);

  // Elementwise kernels.
  // y[i] = x[i] + y[i] * (accumulate)
  void (*copy)(Elements x, MutableElements y, int64_t count, Accumulate accumulate);
  // y[i] (+)= factor * x[i]
  void (*scale)(Elements x, float factor, MutableElements y, int64_t count, Accumulate accumulate);
  // Likewise with a factor on the device.
  void (*scale_by)(Elements x, const float* factor, MutableElements y, int64_t count, Accumulate accumulate);
  // z[i] = x[i] + y[i]
  void (*add)(Elements x, Elements y, MutableElements z, int64_t count);
  // sums[c] (+)= sum over rows of x[row, c], in an order that depends on the number of rows only.
  void (*column_sums)(Elements x, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                      Accumulate accumulate);
  // y[j, i] = x[i, j] for elements of `element` bytes, 2 or 4. x [rows, cols] with row stride x_stride in
  // elements; y [cols, rows], contiguous.
  void (*transpose)(const void* x, int64_t x_stride, int64_t rows, int64_t cols, size_t element, void* y);

  // Optimizers: one pass over all parameters.
  void (*adam)(const AdamRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
  void (*sgd)(const SgdRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
  void (*rmsprop)(const RmspropRule& rule, const OptimizerPass& pass,
                  std::span<const ParameterUpdate> updates);
  void (*adagrad)(const AdagradRule& rule, const OptimizerPass& pass,
                  std::span<const ParameterUpdate> updates);
  void (*adafactor)(const AdafactorRule& rule, const OptimizerPass& pass,
                    std::span<const ParameterUpdate> updates);

  // Sums and checks.
  // The sum of squares in double precision, in an order that depends on the count only.
  void (*sum_of_squares)(const float* x, int64_t count, double* sum);
  // total = the sum in double precision, in order; scaled = factor * total, unless null.
  void (*total)(const float* x, int64_t count, float factor, double* total, float* scaled);
  // 1 if all elements are finite, else 0.
  void (*all_finite)(Elements x, int64_t count, int32_t* finite);
};

// The type of the functions of an entry of the table: KernelOf<&Backend::rotary> rotary; declares one.
template <auto entry>
using KernelOf = std::remove_pointer_t<std::remove_cvref_t<decltype(std::declval<const Backend&>().*entry)>>;

// The backend of a device. Throws UsageError if it is not in the build.
const Backend& backend(Device device);

// Each has its own folder; builds without one use its stub in qkv/kernels/absent/, which throws. That of cuda
// is in a library of its own, which the first call opens.
const Backend& cpu_backend();
const Backend& reference_backend();
const Backend& cuda_backend(int index);  // of a GPU

}  // namespace qkv::kernels

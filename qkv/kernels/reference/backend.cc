// The reference kernels as a backend: converts device addresses to readable ones, and calls the loops in this
// folder.

#include "qkv/kernels/backend.h"

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

template <class AnyMatrix>
AnyMatrix readable_matrix(AnyMatrix matrix) {
  make_readable(matrix.data);
  return matrix;
}

std::vector<Matrix> readable_all(std::span<const Matrix> blocks) {
  std::vector<Matrix> all(blocks.begin(), blocks.end());
  for (Matrix& block : all) make_readable(block.data);
  return all;
}

AttentionShape readable_shape(AttentionShape shape) {
  make_readable(shape.keep.data, shape.bias.data, shape.alibi_slopes, shape.relative.data);
  return shape;
}

AttentionInput readable_input(AttentionInput input) {
  make_readable(input.query, input.key, input.value);
  return input;
}

std::vector<ParameterUpdate> readable_updates(std::span<const ParameterUpdate> updates) {
  std::vector<ParameterUpdate> result(updates.begin(), updates.end());
  for (ParameterUpdate& update : result) {
    make_readable(update.value, update.gradient, update.average);
    for (float*& state : update.state) make_readable(state);
  }
  return result;
}

class ReferenceBackend final : public Backend {
 public:
  DeviceMemory* memory() const override { return &reference::memory(); }

  std::unique_ptr<const PreparedMatrix> pack_transposed(std::span<const Matrix> blocks,
                                                        DType operands) const override {
    return reference::pack_transposed(readable_all(blocks), operands);
  }
  std::unique_ptr<const PreparedMatrix> pack_plain(std::span<const Matrix> blocks,
                                                   DType operands) const override {
    return reference::pack_plain(readable_all(blocks), operands);
  }
  bool has_fast_bf16() const override { return true; }  // as fast as everything else here
  std::unique_ptr<const PreparedMatrix> view(std::span<const WeightRows> blocks) const override {
    std::vector<WeightRows> all(blocks.begin(), blocks.end());
    for (WeightRows& block : all) make_readable(block.data, block.scales);
    return reference::view(all);
  }
  void matmul(const Matrix& a, const PreparedMatrix& b, const float* bias, const MutableMatrix& c,
              Accumulate accumulate) const override {
    reference::matmul(readable_matrix(a), static_cast<const reference::RightHandSide&>(b), readable(bias),
                      readable_matrix(c), accumulate);
  }
  void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                           DType operands) const override {
    reference::matmul_transposed_a(readable_matrix(a), readable_matrix(b), readable_matrix(c), accumulate,
                                   operands);
  }

  void round_to_bf16(const float* from, BFloat16* to, int64_t count) const override {
    reference::round_to_bf16(readable(from), readable(to), count);
  }
  void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to,
                     float* scales) const override {
    reference::quantize_rows(readable(from), rows, cols, readable(to), readable(scales));
  }
  void widen_rows(const WeightRows& from, float* to) const override {
    WeightRows rows = from;
    make_readable(rows.data, rows.scales);
    reference::widen_rows(rows, readable(to));
  }

  void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                         const AttentionOutput& output) const override {
    AttentionOutput to = output;
    make_readable(to.output, to.log_sum_exp, to.capture.weights, to.capture.scores, to.capture.entropy,
                  to.capture.top_weights, to.capture.top_keys);
    reference::attention_forward(readable_shape(shape), readable_input(input), to);
  }
  void attention_backward(const AttentionShape& shape, const AttentionInput& input, const float* /*output*/,
                          int64_t /*output_stride*/, const float* /*log_sum_exp*/, const float* grad_output,
                          int64_t grad_output_stride, const AttentionGradients& gradients) const override {
    AttentionGradients to = gradients;
    make_readable(to.query, to.key, to.value, to.bias, to.relative);
    reference::attention_backward(readable_shape(shape), readable_input(input), readable(grad_output),
                                  grad_output_stride, to);
  }
  int64_t attention_key_group() const override { return 1; }  // a hidden key adds an exact zero
  void attention_cached(const CachedAttention& attention) const override {
    CachedAttention a = attention;
    make_readable(a.query, a.alibi_slopes, a.relative.data, a.output);
    std::vector<std::vector<const void*>> entries;
    std::vector<const void* const*> rows;
    std::vector<float*> weights;
    for (int64_t row = 0; row < a.rows; ++row) {
      std::vector<const void*>& own = entries.emplace_back(a.entries[row], a.entries[row] + a.lengths[row]);
      for (const void*& entry : own) entry = readable(entry);
      rows.push_back(own.data());
      if (a.weights != nullptr) weights.push_back(readable(a.weights[row]));
    }
    a.entries = rows.data();
    if (a.weights != nullptr) a.weights = weights.data();
    reference::attention_cached(a);
  }
  void store_cached(const CacheStore& arguments) const override {
    CacheStore a = arguments;
    make_readable(a.keys, a.values);
    std::vector<void*> to(a.to, a.to + a.count);
    for (void*& entry : to) entry = readable(entry);
    a.to = to.data();
    reference::store_cached(a);
  }
  void load_cached(const CacheLoad& arguments) const override {
    CacheLoad a = arguments;
    make_readable(a.to);
    std::vector<const void*> from(a.from, a.from + a.count);
    for (const void*& entry : from) entry = readable(entry);
    a.from = from.data();
    reference::load_cached(a);
  }

  void rotary(const Rotary& arguments) const override {
    Rotary a = arguments;
    make_readable(a.x, a.y, a.cosines, a.sines, a.positions);
    reference::rotary(a);
  }

  void embedding_forward(const EmbeddingForward& arguments) const override {
    EmbeddingForward a = arguments;
    make_readable(a.table.data, a.table.scales, a.ids, a.positions, a.position, a.y);
    reference::embedding_forward(a);
  }
  void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                          int64_t vocabulary, const Dropout& dropout, float* table_gradient) const override {
    reference::embedding_backward(readable(dy), readable(ids), factor, tokens, cols, vocabulary, dropout,
                                  readable(table_gradient));
  }

  void norm_forward(const NormInput& input, const NormOutput& output) const override {
    NormInput from = input;
    NormOutput to = output;
    make_readable(from.x, from.residual, from.weight, from.bias, to.sum, to.y, to.mean, to.rstd);
    reference::norm_forward(from, to);
  }
  void norm_backward(const NormBackward& arguments) const override {
    NormBackward a = arguments;
    make_readable(a.z, a.weight, a.mean, a.rstd, a.dy, a.dz, a.residual_gradient, a.weight_gradient,
                  a.bias_gradient);
    reference::norm_backward(a);
  }
  void dropout_backward(const float* dy, float* dx, int64_t rows, int64_t cols, const Dropout& dropout,
                        Accumulate accumulate) const override {
    reference::dropout_backward(readable(dy), readable(dx), rows, cols, dropout, accumulate);
  }

  void activate(Activation activation, const float* x, float* y, int64_t rows, int64_t cols,
                const Dropout& dropout) const override {
    reference::activate(activation, readable(x), readable(y), rows, cols, dropout);
  }
  void activate_backward(Activation activation, const float* x, const float* dy, float* dx, int64_t rows,
                         int64_t cols, const Dropout& dropout, Accumulate accumulate) const override {
    reference::activate_backward(activation, readable(x), readable(dy), readable(dx), rows, cols, dropout,
                                 accumulate);
  }
  void relu_backward(const float* y, const float* dy, float factor, float* dx, int64_t count) const override {
    reference::relu_backward(readable(y), readable(dy), factor, readable(dx), count);
  }
  void gated(const Gated& arguments, float* y) const override {
    Gated a = arguments;
    make_readable(a.gate, a.x);
    reference::gated(a, readable(y));
  }
  void gated_backward(const Gated& arguments, const float* dy, const GradientRows& d_gate,
                      const GradientRows& d_x) const override {
    Gated a = arguments;
    GradientRows to_gate = d_gate, to_x = d_x;
    make_readable(a.gate, a.x, to_gate.data, to_x.data);
    reference::gated_backward(a, readable(dy), to_gate, to_x);
  }

  void cross_entropy(const CrossEntropy& arguments) const override {
    CrossEntropy a = arguments;
    make_readable(a.logits, a.bias, a.labels, a.loss, a.nll);
    reference::cross_entropy(a);
  }
  void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                   int64_t cols) const override {
    reference::log_softmax(readable(logits), readable(bias), readable(log_probabilities), rows, cols);
  }
  void softmax(const float* x, float* y, int64_t rows, int64_t cols) const override {
    reference::softmax(readable(x), readable(y), rows, cols);
  }

  void softmax_backward(const SoftmaxBackward& arguments) const override {
    SoftmaxBackward a = arguments;
    make_readable(a.y, a.dy, a.dx);
    reference::softmax_backward(a);
  }
  void label_loss(const LabelLossForward& arguments) const override {
    LabelLossForward a = arguments;
    make_readable(a.loss.logits, a.loss.labels, a.loss.class_weights, a.losses, a.log_sum_exp);
    reference::label_loss(a);
  }
  void label_loss_backward(const LabelLossBackward& arguments) const override {
    LabelLossBackward a = arguments;
    make_readable(a.loss.logits, a.loss.labels, a.loss.class_weights, a.log_sum_exp, a.d_losses, a.d_logits);
    reference::label_loss_backward(a);
  }
  void binary(const Broadcast& arguments) const override {
    Broadcast a = arguments;
    make_readable(a.x, a.y, a.z);
    reference::binary(a);
  }
  void sum_axis(const AxisSum& arguments) const override {
    AxisSum a = arguments;
    make_readable(a.x, a.y);
    reference::sum_axis(a);
  }
  void batched_product(const BatchedProduct& arguments) const override {
    BatchedProduct a = arguments;
    make_readable(a.x, a.y, a.z);
    reference::batched_product(a);
  }
  void segment_mean(const SegmentMean& arguments) const override {
    SegmentMean a = arguments;
    make_readable(a.x, a.y);
    reference::segment_mean(a);
  }
  void segment_mean_backward(const SegmentMeanBackward& arguments) const override {
    SegmentMeanBackward a = arguments;
    make_readable(a.dy, a.dx);
    reference::segment_mean_backward(a);
  }
  void segment_max(const SegmentMax& arguments) const override {
    SegmentMax a = arguments;
    make_readable(a.x, a.y, a.rows);
    reference::segment_max(a);
  }
  void segment_max_backward(const SegmentMaxBackward& arguments) const override {
    SegmentMaxBackward a = arguments;
    make_readable(a.dy, a.rows, a.dx);
    reference::segment_max_backward(a);
  }
  void copy(const float* x, float* y, int64_t count, Accumulate accumulate) const override {
    reference::copy(readable(x), readable(y), count, accumulate);
  }
  void scale(const float* x, float factor, float* y, int64_t count, Accumulate accumulate) const override {
    reference::scale(readable(x), factor, readable(y), count, accumulate);
  }
  void add(const float* x, const float* y, float* z, int64_t count) const override {
    reference::add(readable(x), readable(y), readable(z), count);
  }
  void column_sums(const float* x, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                   Accumulate accumulate) const override {
    reference::column_sums(readable(x), rows, cols, row_stride, readable(sums), accumulate);
  }
  void transpose(const void* x, int64_t x_stride, int64_t rows, int64_t cols, size_t element,
                 void* y) const override {
    reference::transpose(readable(x), x_stride, rows, cols, element, readable(y));
  }

  void adam(const AdamRule& rule, const OptimizerPass& pass,
            std::span<const ParameterUpdate> updates) const override {
    reference::adam(rule, pass, readable_updates(updates));
  }
  void sgd(const SgdRule& rule, const OptimizerPass& pass,
           std::span<const ParameterUpdate> updates) const override {
    reference::sgd(rule, pass, readable_updates(updates));
  }
  void rmsprop(const RmspropRule& rule, const OptimizerPass& pass,
               std::span<const ParameterUpdate> updates) const override {
    reference::rmsprop(rule, pass, readable_updates(updates));
  }
  void adagrad(const AdagradRule& rule, const OptimizerPass& pass,
               std::span<const ParameterUpdate> updates) const override {
    reference::adagrad(rule, pass, readable_updates(updates));
  }
  void adafactor(const AdafactorRule& rule, const OptimizerPass& pass,
                 std::span<const ParameterUpdate> updates) const override {
    reference::adafactor(rule, pass, readable_updates(updates));
  }
  double sum_of_squares(const float* x, int64_t count) const override {
    return reference::sum_of_squares(readable(x), count);
  }
  bool all_finite(const float* x, int64_t count) const override {
    return reference::all_finite(readable(x), count);
  }
};

}  // namespace

const Backend& reference_backend() {
  static constinit const ReferenceBackend instance;
  return instance;
}

}  // namespace qkv::kernels

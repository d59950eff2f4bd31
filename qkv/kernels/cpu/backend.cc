#include "qkv/kernels/backend.h"

#include <utility>

#include "qkv/kernels/cpu/attention/attention.h"
#include "qkv/kernels/cpu/embedding.h"
#include "qkv/kernels/cpu/gated.h"
#include "qkv/kernels/cpu/loss.h"
#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/norm.h"
#include "qkv/kernels/cpu/optimizer.h"
#include "qkv/kernels/cpu/plain/plain.h"
#include "qkv/kernels/cpu/pointwise.h"
#include "qkv/kernels/cpu/rotary.h"
#include "qkv/kernels/cpu/transpose.h"
#include "qkv/kernels/cpu/weights.h"
#include "qkv/kernels/instruction_set.h"

namespace qkv::kernels {
namespace {

// Either of the two.
struct CpuMatrix final : PreparedMatrix {
  explicit CpuMatrix(cpu::PackedMatrix matrix) : packed(std::move(matrix)) {}
  explicit CpuMatrix(cpu::WeightView weights) : in_place(std::move(weights)) {}
  cpu::PackedMatrix packed;
  cpu::WeightView in_place;
};

class CpuBackend final : public Backend {
 public:
  DeviceMemory* memory() const override { return nullptr; }
  std::unique_ptr<const PreparedMatrix> pack_transposed(std::span<const Matrix> blocks,
                                                        DType operands) const override {
    return std::make_unique<const CpuMatrix>(cpu::PackedMatrix::transposed(blocks, operands));
  }
  std::unique_ptr<const PreparedMatrix> pack_plain(std::span<const Matrix> blocks,
                                                   DType operands) const override {
    return std::make_unique<const CpuMatrix>(cpu::PackedMatrix::plain(blocks, operands));
  }
  bool has_fast_bf16() const override { return cpu::has_fast_bf16(); }
  std::unique_ptr<const PreparedMatrix> view(std::span<const WeightRows> blocks) const override {
    return std::make_unique<const CpuMatrix>(cpu::WeightView(blocks));
  }
  void matmul(const Matrix& a, const PreparedMatrix& b, const float* bias, const MutableMatrix& c,
              Accumulate accumulate) const override {
    const auto& right = static_cast<const CpuMatrix&>(b);
    if (right.packed.empty()) return cpu::matmul(a, right.in_place, bias, c, accumulate);
    cpu::matmul(a, right.packed, bias, c, accumulate);
  }
  void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                           DType operands) const override {
    cpu::matmul_transposed_a(a, b, c, accumulate, operands);
  }
  void round_to_bf16(const float* from, BFloat16* to, int64_t count) const override {
    cpu::round_to_bf16(from, to, count);
  }
  void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to,
                     float* scales) const override {
    cpu::quantize_rows(from, rows, cols, to, scales);
  }
  void widen_rows(const WeightRows& from, float* to) const override { cpu::widen_rows(from, to); }
  void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                         const AttentionOutput& output) const override {
    cpu::attention_forward(shape, input, output);
  }
  void attention_backward(const AttentionShape& shape, const AttentionInput& input, const float* output,
                          int64_t output_stride, const float* log_sum_exp, const float* grad_output,
                          int64_t grad_output_stride, const AttentionGradients& gradients) const override {
    cpu::attention_backward(shape, input, output, output_stride, log_sum_exp, grad_output, grad_output_stride,
                            gradients);
  }
  int64_t attention_key_group() const override { return cpu::attention_key_group(); }
  void attention_cached(const CachedAttention& attention) const override { cpu::attention_cached(attention); }
  void store_cached(const CacheStore& arguments) const override { cpu::store_cached(arguments); }
  void load_cached(const CacheLoad& arguments) const override { cpu::load_cached(arguments); }
  void rotary(const Rotary& arguments) const override { cpu::rotary(arguments); }
  void embedding_forward(const EmbeddingForward& arguments) const override {
    cpu::embedding_forward(arguments);
  }
  void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                          int64_t vocabulary, const Dropout& dropout, float* table_gradient) const override {
    cpu::embedding_backward(dy, ids, factor, tokens, cols, vocabulary, dropout, table_gradient);
  }
  void norm_forward(const NormInput& input, const NormOutput& output) const override {
    cpu::norm_forward(input, output);
  }
  void norm_backward(const NormBackward& arguments) const override { cpu::norm_backward(arguments); }
  void dropout_backward(const float* dy, float* dx, int64_t rows, int64_t cols, const Dropout& dropout,
                        Accumulate accumulate) const override {
    cpu::dropout_backward(dy, dx, rows, cols, dropout, accumulate);
  }
  void activate(Activation activation, const float* x, float* y, int64_t rows, int64_t cols,
                const Dropout& dropout) const override {
    cpu::activate(activation, x, y, rows, cols, dropout);
  }
  void activate_backward(Activation activation, const float* x, const float* dy, float* dx, int64_t rows,
                         int64_t cols, const Dropout& dropout, Accumulate accumulate) const override {
    cpu::activate_backward(activation, x, dy, dx, rows, cols, dropout, accumulate);
  }
  void relu_backward(const float* y, const float* dy, float factor, float* dx, int64_t count) const override {
    cpu::relu_backward(y, dy, factor, dx, count);
  }
  void gated(const Gated& arguments, float* y) const override { cpu::gated(arguments, y); }
  void gated_backward(const Gated& arguments, const float* dy, const GradientRows& d_gate,
                      const GradientRows& d_x) const override {
    cpu::gated_backward(arguments, dy, d_gate, d_x);
  }
  void cross_entropy(const CrossEntropy& arguments) const override { cpu::cross_entropy(arguments); }
  void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                   int64_t cols) const override {
    cpu::log_softmax(logits, bias, log_probabilities, rows, cols);
  }
  void softmax(const float* x, float* y, int64_t rows, int64_t cols) const override {
    cpu::softmax(x, y, rows, cols);
  }
  void softmax_backward(const SoftmaxBackward& arguments) const override { cpu::softmax_backward(arguments); }
  void label_loss(const LabelLossForward& arguments) const override { cpu::label_loss(arguments); }
  void label_loss_backward(const LabelLossBackward& arguments) const override {
    cpu::label_loss_backward(arguments);
  }
  void binary(const Broadcast& arguments) const override { cpu::binary(arguments); }
  void sum_axis(const AxisSum& arguments) const override { cpu::sum_axis(arguments); }
  void batched_product(const BatchedProduct& arguments) const override { cpu::batched_product(arguments); }
  void segment_mean(const SegmentMean& arguments) const override { cpu::segment_mean(arguments); }
  void segment_mean_backward(const SegmentMeanBackward& arguments) const override {
    cpu::segment_mean_backward(arguments);
  }
  void segment_max(const SegmentMax& arguments) const override { cpu::segment_max(arguments); }
  void segment_max_backward(const SegmentMaxBackward& arguments) const override {
    cpu::segment_max_backward(arguments);
  }
  void copy(const float* x, float* y, int64_t count, Accumulate accumulate) const override {
    cpu::copy(x, y, count, accumulate);
  }
  void scale(const float* x, float factor, float* y, int64_t count, Accumulate accumulate) const override {
    cpu::scale(x, factor, y, count, accumulate);
  }
  void add(const float* x, const float* y, float* z, int64_t count) const override {
    cpu::add(x, y, z, count);
  }
  void column_sums(const float* x, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                   Accumulate accumulate) const override {
    cpu::column_sums(x, rows, cols, row_stride, sums, accumulate);
  }
  void transpose(const void* x, int64_t x_stride, int64_t rows, int64_t cols, size_t element,
                 void* y) const override {
    if (element == 2)
      return cpu::transpose(static_cast<const uint16_t*>(x), x_stride, rows, cols, static_cast<uint16_t*>(y));
    cpu::transpose(static_cast<const uint32_t*>(x), x_stride, rows, cols, static_cast<uint32_t*>(y));
  }
  void adam(const AdamRule& rule, const OptimizerPass& pass,
            std::span<const ParameterUpdate> updates) const override {
    cpu::adam(rule, pass, updates);
  }
  void sgd(const SgdRule& rule, const OptimizerPass& pass,
           std::span<const ParameterUpdate> updates) const override {
    cpu::sgd(rule, pass, updates);
  }
  void rmsprop(const RmspropRule& rule, const OptimizerPass& pass,
               std::span<const ParameterUpdate> updates) const override {
    cpu::rmsprop(rule, pass, updates);
  }
  void adagrad(const AdagradRule& rule, const OptimizerPass& pass,
               std::span<const ParameterUpdate> updates) const override {
    cpu::adagrad(rule, pass, updates);
  }
  void adafactor(const AdafactorRule& rule, const OptimizerPass& pass,
                 std::span<const ParameterUpdate> updates) const override {
    cpu::adafactor(rule, pass, updates);
  }
  double sum_of_squares(const float* x, int64_t count) const override {
    return cpu::sum_of_squares(x, count);
  }
  bool all_finite(const float* x, int64_t count) const override { return cpu::all_finite(x, count); }
};

}  // namespace

const Backend& cpu_backend() {
  static constinit const CpuBackend instance;
  instruction_set();  // applies or rejects QKV_ISA before the first kernel runs
  return instance;
}

}  // namespace qkv::kernels

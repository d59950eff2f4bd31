#include "qkv/kernels/backend.h"

#include <utility>
#include <vector>

#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/cpu/matmul.h"
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

using Prepared = std::unique_ptr<const PreparedMatrix>;

Prepared pack_transposed(std::span<const Matrix> blocks, DType operands) {
  return std::make_unique<const CpuMatrix>(cpu::PackedMatrix::transposed(blocks, operands));
}

Prepared pack_plain(std::span<const Matrix> blocks, DType operands) {
  return std::make_unique<const CpuMatrix>(cpu::PackedMatrix::plain(blocks, operands));
}

Prepared view(std::span<const WeightRows> blocks) {
  return std::make_unique<const CpuMatrix>(cpu::WeightView(blocks));
}

void matmul_with_prepared(const Matrix& a, const PreparedMatrix& b, const float* bias, const MutableMatrix& c,
                          Accumulate accumulate) {
  const auto& right = static_cast<const CpuMatrix&>(b);
  if (right.packed.empty()) return cpu::matmul(a, right.in_place, bias, c, accumulate);
  cpu::matmul(a, right.packed, bias, c, accumulate);
}

struct Choices final : PreparedMatrix {
  std::vector<const PreparedMatrix*> views;
  std::vector<const float*> biases;
};

Prepared choices(std::span<const PreparedMatrix* const> views, std::span<const float* const> biases) {
  auto all = std::make_unique<Choices>();
  all->views.assign(views.begin(), views.end());
  all->biases.assign(biases.begin(), biases.end());
  return all;
}

void matmul_chosen(const Matrix& a, const PreparedMatrix& prepared, const int32_t* chosen,
                   const MutableMatrix& c) {
  const auto& all = static_cast<const Choices&>(prepared);
  for (int64_t r = 0; r < c.rows; ++r) {
    const auto choice = static_cast<size_t>(chosen[r]);
    const Matrix row{a.data + r / (c.rows / a.rows) * a.stride, 1, a.cols, a.stride};
    matmul_with_prepared(row, *all.views[choice], all.biases[choice],
                         {c.data + r * c.stride, 1, c.cols, c.stride}, Accumulate::no);
  }
}

constexpr Backend kCpuBackend{
    .memory = []() -> DeviceMemory* { return nullptr; },
    .pack_transposed = pack_transposed,
    .pack_plain = pack_plain,
    .has_fast_bf16 = cpu::has_fast_bf16,
    .view = view,
    .matmul = matmul_with_prepared,
    .choices = choices,
    .matmul_chosen = matmul_chosen,
    .chosen_rows = [] { return int64_t{1}; },
    .matmul_transposed_a = cpu::matmul_transposed_a,
    .round_to_bf16 = cpu::round_to_bf16,
    .round_to_f16 = cpu::round_to_f16,
    .quantize_rows = cpu::quantize_rows,
    .widen_rows = cpu::widen_rows,
    .attention_forward = cpu::attention_forward,
    .attention_backward = cpu::attention_backward,
    .attention_key_group = cpu::attention_key_group,
    .attention_cached = cpu::attention_cached,
    .store_cached = cpu::store_cached,
    .load_cached = cpu::load_cached,
    .copy_cached = cpu::copy_cached,
    .rotary = cpu::rotary,
    .embedding_forward = cpu::embedding_forward,
    .embedding_backward = cpu::embedding_backward,
    .norm_forward = cpu::norm_forward,
    .norm_backward = cpu::norm_backward,
    .dropout_backward = cpu::dropout_backward,
    .activate = cpu::activate,
    .activate_backward = cpu::activate_backward,
    .relu_backward = cpu::relu_backward,
    .gated = cpu::gated,
    .gated_backward = cpu::gated_backward,
    .cross_entropy = cpu::cross_entropy,
    .log_softmax = cpu::log_softmax,
    .best_tokens = cpu::best_tokens,
    .softmax = cpu::softmax,
    .softmax_backward = cpu::softmax_backward,
    .label_loss = cpu::label_loss,
    .label_loss_backward = cpu::label_loss_backward,
    .choose_experts = cpu::choose_experts,
    .expert_weights = cpu::expert_weights,
    .expert_weights_backward = cpu::expert_weights_backward,
    .binary = cpu::binary,
    .sum_axis = cpu::sum_axis,
    .batched_product = cpu::batched_product,
    .segment_mean = cpu::segment_mean,
    .segment_mean_backward = cpu::segment_mean_backward,
    .segment_max = cpu::segment_max,
    .segment_max_backward = cpu::segment_max_backward,
    .copy = cpu::copy,
    .scale = cpu::scale,
    .scale_by = cpu::scale_by,
    .add = cpu::add,
    .column_sums = cpu::column_sums,
    .transpose = cpu::transpose,
    .adam = cpu::adam,
    .sgd = cpu::sgd,
    .rmsprop = cpu::rmsprop,
    .adagrad = cpu::adagrad,
    .adafactor = cpu::adafactor,
    .sum_of_squares = [](const float* x, int64_t count,
                         double* sum) { *sum = cpu::sum_of_squares(x, count); },
    .total = cpu::total,
    .all_finite = [](Elements x, int64_t count,
                     int32_t* finite) { *finite = cpu::all_finite(x.f32(), count) ? 1 : 0; },
};

}  // namespace

const Backend& cpu_backend() {
  instruction_set();  // applies or rejects QKV_ISA before the first kernel runs
  return kCpuBackend;
}

}  // namespace qkv::kernels

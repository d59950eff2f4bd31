#include "qkv/kernels/matmul.h"

#include <utility>
#include <vector>

#include "qkv/kernels/dispatch.h"
#include "qkv/kernels/weights.h"

namespace qkv::kernels {
namespace {

Matrix matrix(const Tensor& x) { return {elements(x), x.dim(0), x.dim(1), x.row_stride()}; }
MutableMatrix mutable_matrix(Tensor& x) { return {mutable_elements(x), x.dim(0), x.dim(1), x.row_stride()}; }

std::vector<Matrix> matrices(std::span<const Tensor> blocks) {
  std::vector<Matrix> all;
  for (const Tensor& block : blocks) all.push_back(matrix(block));
  return all;
}

// All blocks are copied.
void count_packing(std::span<const Tensor> blocks) {
  for (const Tensor& block : blocks) count_elements(2 * block.numel());
}

// c (+)= a b, where b has this size.
void count_product(const Tensor& a, size_t b_bytes, const Tensor& c, Accumulate accumulate) {
  count_macs(static_cast<uint64_t>(a.numel() * c.dim(1)));
  count_elements(a.numel() + memory_passes(accumulate) * c.numel());
  count_bytes(static_cast<int64_t>(b_bytes));
}

}  // namespace

PackedMatrix PackedMatrix::transposed(std::span<const Tensor> blocks, DType operands) {
  count_packing(blocks);
  PackedMatrix packed;
  packed.prepared_ = backend(blocks.front().device()).pack_transposed(matrices(blocks), operands);
  return packed;
}

PackedMatrix PackedMatrix::plain(std::span<const Tensor> blocks, DType operands) {
  count_packing(blocks);
  PackedMatrix packed;
  packed.prepared_ = backend(blocks.front().device()).pack_plain(matrices(blocks), operands);
  return packed;
}

WeightView::WeightView(std::span<const QuantizedTensor> blocks) {
  std::vector<WeightRows> rows;
  for (const QuantizedTensor& block : blocks) {
    rows.push_back(weight_rows(block));
    bytes_ += block.values.bytes();
  }
  device_ = blocks.front().values.device();
  const std::shared_ptr<const PreparedMatrix> view = backend(device_).view(rows);
  // Keeps the weights alive as long as pointers to them.
  using Kept = std::pair<std::shared_ptr<const PreparedMatrix>, std::vector<QuantizedTensor>>;
  const auto kept = std::make_shared<const Kept>(view, std::vector(blocks.begin(), blocks.end()));
  prepared_ = {kept, view.get()};
}

ChosenViews::ChosenViews(std::span<const WeightView> views, std::span<const Tensor> biases)
    : bytes_(views.front().bytes()) {
  std::vector<const PreparedMatrix*> addresses;
  std::vector<const float*> of_biases;
  for (const WeightView& one : views) addresses.push_back(one.prepared().get());
  for (const Tensor& bias : biases) of_biases.push_back(input(bias));
  const std::shared_ptr<const PreparedMatrix> all =
      backend(views.front().device()).choices(addresses, of_biases);
  struct Kept {
    std::vector<WeightView> views;
    std::vector<Tensor> biases;
    std::shared_ptr<const PreparedMatrix> all;
  };
  const auto kept =
      std::make_shared<const Kept>(Kept{{views.begin(), views.end()}, {biases.begin(), biases.end()}, all});
  prepared_ = {kept, all.get()};
}

void matmul(const Tensor& a, const PackedMatrix& b, const Tensor& bias, Tensor& c, Accumulate accumulate) {
  count_product(a, bytes_of(DType::f32, a.dim(1) * c.dim(1)), c, accumulate);
  backend_of("matmul", a, bias, c)
      .matmul(matrix(a), *b.prepared(), address(bias), mutable_matrix(c), accumulate);
}

void matmul(const Tensor& a, const WeightView& b, const Tensor& bias, Tensor& c, Accumulate accumulate) {
  count_product(a, b.bytes(), c, accumulate);
  backend_of("matmul", a, bias, c)
      .matmul(matrix(a), *b.prepared(), address(bias), mutable_matrix(c), accumulate);
}

void matmul_chosen(const Tensor& a, const ChosenViews& b, const Tensor& chosen, Tensor& c) {
  count_macs(static_cast<uint64_t>(a.dim(1) * c.numel()));
  count_elements(a.numel() + c.numel());
  count_bytes(static_cast<int64_t>(b.bytes()) * c.dim(0));
  backend_of("matmul_chosen", a, chosen, c)
      .matmul_chosen(matrix(a), *b.prepared(), input<int32_t>(chosen), mutable_matrix(c));
}

int64_t chosen_rows(Device device) { return backend(device).chosen_rows(); }

void matmul_transposed_a(const Tensor& a, const Tensor& b, Tensor& c, Accumulate accumulate, DType operands) {
  count_macs(static_cast<uint64_t>(a.numel() * b.dim(1)));
  count_elements(a.numel() + b.numel() + memory_passes(accumulate) * c.numel());
  backend_of("matmul_transposed_a", a, b, c)
      .matmul_transposed_a(matrix(a), matrix(b), mutable_matrix(c), accumulate, operands);
}

bool has_fast_bf16(Device device) { return backend(device).has_fast_bf16(); }

}  // namespace qkv::kernels

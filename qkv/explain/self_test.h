#pragma once
// Checks that this build computes correctly on this machine.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkv/ops/attention.h"
#include "qkv/tensor/quantized_tensor.h"
#include "qkv/tensor/ragged.h"

namespace qkv::explain {

struct SelfCheck {
  std::string name;  // "product, int8 weights in place"
  bool passed = false;
  std::string found;   // the largest error and its bound, or the first difference
  double seconds = 0;  // wall time
};

// The kernels under test, from tensors of the host to tensors of the host. Tests of the self-test replace one
// by a wrong kernel.
struct KernelsUnderTest {
  // x [rows, k] times the transpose of w [n, k], plus bias [n]; x and w rounded to `operands`, f32 or bf16.
  std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& bias, DType operands)> packed_product;
  std::function<Tensor(const Tensor& x, const QuantizedTensor& w, const Tensor& bias)> product_in_place;
  // The transpose of dy [rows, n] times x [rows, k], both rounded likewise.
  std::function<Tensor(const Tensor& dy, const Tensor& x, DType operands)> weight_gradient;
  // As multihead_attention(): the output [query tokens, heads * d_v].
  std::function<Tensor(const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads,
                       const AttentionOptions& options)>
      attention;
  // A layer of width 64 on concatenated sequences: [tokens, 64] to [tokens, 64].
  std::function<Tensor(const Tensor& x, const Offsets& offsets)> layer;
  // The concatenated gradients of the layer's weights, in training with dropout.
  std::function<Tensor(const Tensor& x, const Offsets& offsets)> layer_gradients;
};
KernelsUnderTest own_kernels(Device device = Device::cpu);

struct SelfTestOptions {
  Device device = Device::cpu;
  KernelsUnderTest kernels = own_kernels(device);
  std::function<void(const SelfCheck&)> on_result = {};  // called with each result as it arrives
};

// Compares products of all weight dtypes with sums in double precision, attention with recorded values and
// with the definition in double precision, and the bits of a layer's results alone, in a batch, and, on the
// CPU, with 1, 2, 3 and threads() threads. On a GPU, a batch has a number of rows of the class of its
// sequences' (docs/gpu.md). Takes a few seconds. A check that throws has failed with that message;
// self_test() does not throw.
std::vector<SelfCheck> self_test(const SelfTestOptions& options = {});

}  // namespace qkv::explain

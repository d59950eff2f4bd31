#include "qkv/ops/linear_cross_entropy.h"

#include <algorithm>

#include "qkv/kernels/loss.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/linear_product.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

// A temporary tensor, accounted as scratch.
Tensor scratch(const Shape& shape, Device device) {
  const MemoryScope memory(MemoryUse::scratch);
  return Tensor::empty(shape, DType::f32, device);
}

// kernels::cross_entropy() of softcap tanh(z / softcap), where z are the logits of the arguments, which are
// overwritten. Returns the gradient of z.
Tensor capped_cross_entropy(kernels::CrossEntropyTensors arguments, float softcap) {
  Tensor z = arguments.logits, capped = scratch(z.shape(), z.device());
  kernels::scale(z, 1 / softcap, z, Accumulate::no);
  kernels::activate(kernels::Activation::tanh, z, {}, capped);
  kernels::scale(capped, softcap, capped, Accumulate::no);
  arguments.logits = capped;
  kernels::cross_entropy(std::move(arguments));
  kernels::activate_backward(kernels::Activation::tanh, z, capped, {}, {capped, Accumulate::no});
  return capped;
}

}  // namespace

CrossEntropyResult linear_cross_entropy(const Variable& x, const LinearWeights& weights, const Tensor& labels,
                                        const CrossEntropyOptions& options, float softcap) {
  const ProfileScope profile("cross_entropy");
  const LinearProduct product("cross_entropy", x, weights, options.layout);
  if (options.chunk_rows < 1) {
    throw UsageError(concat("cross_entropy: chunk_rows: expected at least 1, found ", options.chunk_rows));
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw UsageError(
        concat("cross_entropy: expected label_smoothing from 0 to 1, found ", options.label_smoothing));
  }
  if (product.has_low_rank())
    throw UsageError("cross_entropy: expected weights without a low-rank update, found one; use linear()");
  const Tensor ids = as_ids("cross_entropy", "labels", labels);
  const int64_t rows = x.value().rows(), vocabulary = weights.outputs();
  if (labels.numel() != rows) {
    throw ShapeError(
        concat("cross_entropy: x ", x.shape(), " needs ", rows, " labels, found ", labels.shape()));
  }
  const Tensor host_labels = to_host(ids);
  for (const int32_t label : host_labels.values<int32_t>()) {
    if (label < 0 || label >= vocabulary) {
      throw DataError(concat("cross_entropy: label ", label, " is outside the vocabulary of ", vocabulary));
    }
  }
  const bool records = product.records();
  const auto right = product.right_hand_side();
  const Tensor& bias = right->bias;
  // Gradients for an upstream gradient of 1. Weight gradients are held in separate variables until
  // backward().
  Tensor dx = records && x.requires_grad() ? empty_like(x.value()) : Tensor();
  const kernels::PackedMatrix backward =
      dx.defined() ? product.packed_for_backward() : kernels::PackedMatrix();
  std::vector<Variable> weight_gradients, bias_gradients;
  for (const Weight& w : weights.weights()) {
    weight_gradients.push_back(records && w.requires_grad() ? Variable::parameter(w.values())
                                                            : Variable(w.values()));
  }
  for (const Variable& b : weights.biases()) {
    bias_gradients.push_back(records && b.requires_grad() ? Variable::parameter(b.value()) : Variable());
  }

  CrossEntropyResult result;
  const Device device = x.value().device();
  const Tensor device_labels = from_host(ids.reshape({rows}), device);
  Tensor loss_rows = Tensor::empty({rows}, DType::f32, device), nll_rows = empty_like(loss_rows);
  for (int64_t first = 0; first < rows; first += options.chunk_rows) {
    const int64_t count = std::min(options.chunk_rows, rows - first);
    const Tensor x_chunk = x.value().slice_rows(first, count);
    Tensor logits = scratch({count, vocabulary}, device);
    LinearProduct::multiply(x_chunk, *right, softcap > 0 ? bias : Tensor(), logits);
    const kernels::CrossEntropyTensors arguments{.logits = logits,
                                                 .bias = softcap > 0 ? Tensor() : bias,
                                                 .labels = device_labels.slice_rows(first, count),
                                                 .smoothing = options.label_smoothing,
                                                 .grad_scale = options.factor,
                                                 .loss = loss_rows.slice_rows(first, count),
                                                 .nll = nll_rows.slice_rows(first, count)};
    if (softcap > 0) {
      logits = capped_cross_entropy(arguments, softcap);
    } else {
      kernels::cross_entropy(arguments);
    }
    if (dx.defined()) {
      Tensor dx_chunk = dx.slice_rows(first, count);
      LinearProduct::multiply_backward(logits, backward, dx_chunk, Accumulate::no);
    }
    if (records) product.add_weight_gradients(x_chunk, logits, weight_gradients, bias_gradients);
  }
  result.totals = Tensor::empty({2}, DType::i64, device);
  const Tensor loss = Tensor::empty({1}, DType::f32, device);
  kernels::total(loss_rows, options.factor, result.totals, 0, loss);
  kernels::total(nll_rows, options.factor, result.totals, 1);
  if (!records) {
    result.loss = loss;
    return result;
  }
  std::vector<Tape::Input> inputs = product.inputs();
  for (Tape::Input& input : inputs) input.saved = false;  // the gradients are known already
  result.loss =
      Tape::record("cross_entropy", loss, std::move(inputs),
                   [x, dx, weights, weight_gradients, bias_gradients](const Tensor& upstream) {
                     const auto accumulate_scaled = [&](const Tensor& gradient, const Variable& to) {
                       GradientSlot slot = to.gradient_slot();
                       kernels::scale(gradient, upstream, slot.tensor, slot.accumulate);
                     };
                     if (dx.defined()) accumulate_scaled(dx, x);
                     for (size_t i = 0; i < weight_gradients.size(); ++i) {
                       if (weight_gradients[i].has_grad())
                         accumulate_scaled(weight_gradients[i].grad(), weights.weights()[i].variable());
                       if (bias_gradients[i].has_grad())
                         accumulate_scaled(bias_gradients[i].grad(), weights.biases()[i]);
                     }
                   });
  return result;
}

CrossEntropyResult::Sums CrossEntropyResult::sums() const {
  const std::vector<double> both = kernels::doubles({&totals, 1});
  return {both[0], both[1]};
}

}  // namespace qkv

#include "qkv/ops/linear.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "qkv/base/files.h"
#include "qkv/kernels/cpu/loss.h"
#include "qkv/kernels/cpu/pointwise.h"
#include "qkv/kernels/matmul.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/weight_rows.h"

namespace qkv {

using kernels::Matrix;
using kernels::MutableMatrix;
using kernels::PackedMatrix;

namespace {

Matrix matrix(const Tensor& x) { return {x.data(), x.rows(), x.cols(), x.row_stride()}; }
MutableMatrix mutable_matrix(const Tensor& x) { return {x.data(), x.rows(), x.cols(), x.row_stride()}; }

std::vector<Matrix> matrices(const std::vector<Variable>& weights) {
  std::vector<Matrix> blocks;
  for (const Variable& weight : weights) blocks.push_back(matrix(weight.value()));
  return blocks;
}

}  // namespace

// What a product without a tape reads, and the versions of what it was made from.
class LinearWeights::Prepared {
 public:
  struct Form {
    PackedMatrix matrix;
    Tensor bias;
  };

  template <class Make>
  std::shared_ptr<const Form> get(const LinearWeights& of, const Make& make) {
    const std::lock_guard lock(mutex_);
    if (!form_ || !current(of)) {
      form_ = nullptr;
      form_ = std::make_shared<const Form>(make());
      versions_.clear();
      for_each(of, [this](uint64_t version) { versions_.push_back(version); });
    }
    return form_;
  }

  // The weights are about to change.
  void drop() {
    const std::lock_guard lock(mutex_);
    form_ = nullptr;
  }

 private:
  template <class Visit>
  static void for_each(const LinearWeights& of, const Visit& visit) {
    for (const Variable& weight : of.weights_) visit(weight.version());
    for (const Variable& bias : of.biases_) visit(bias.defined() ? bias.version() : 0);
  }

  bool current(const LinearWeights& of) const {
    size_t i = 0;
    bool same = true;
    for_each(of, [&](uint64_t version) { same = same && version == versions_[i++]; });
    return same;
  }

  std::mutex mutex_;
  std::shared_ptr<const Form> form_;
  std::vector<uint64_t> versions_;
};

LinearWeights::LinearWeights(std::vector<Variable> weights, std::vector<Variable> biases)
    : weights_(std::move(weights)), biases_(std::move(biases)), prepared_(std::make_unique<Prepared>()) {
  biases_.resize(weights_.size());
  for (const Variable& weight : weights_) weight.allow_quantized();
}
LinearWeights::~LinearWeights() = default;
LinearWeights::LinearWeights(LinearWeights&&) noexcept = default;
LinearWeights& LinearWeights::operator=(LinearWeights&&) noexcept = default;

int64_t LinearWeights::inputs() const { return weights_.front().shape()[-1]; }

int64_t LinearWeights::outputs() const {
  int64_t sum = 0;
  for (const Variable& weight : weights_) sum += weight.shape()[0];
  return sum;
}

// What linear() and linear_cross_entropy() do with the weights.
struct LinearAccess {
  using Form = LinearWeights::Prepared::Form;

  // The right-hand side and the biases of x W^T + b.
  static std::shared_ptr<const Form> forward(const LinearWeights& w) {
    if (Tape::alive()) {
      require_trainable(w);
      w.prepared_->drop();
      return std::make_shared<const Form>(Form{pack(w), bias(w)});
    }
    return w.prepared_->get(w, [&w] { return Form{for_inference(w), bias(w)}; });
  }

  // The right-hand side of dy W.
  static PackedMatrix backward(const LinearWeights& w) {
    const ProfileScope profile("packing");
    const MemoryScope memory(MemoryUse::packed);
    return PackedMatrix::plain(matrices(w.weights_));
  }

  static PackedMatrix pack(const LinearWeights& w) {
    const ProfileScope profile("packing");
    const MemoryScope memory(MemoryUse::packed);
    return PackedMatrix::transposed(matrices(w.weights_));
  }

  static PackedMatrix for_inference(const LinearWeights& w) {
    const ProfileScope profile("packing");
    std::vector<kernels::WeightRows> rows;
    for (const Variable& weight : w.weights_) {
      rows.push_back(weight_rows(weight));
      if (rows.back().form != rows.front().form) {
        throw ShapeError(concat("linear: expected weights of one form, found ", name_of(rows.front().form),
                                " ", w.weights_.front().shape(), " and ", name_of(rows.back().form), " ",
                                weight.shape()));
      }
    }
    return PackedMatrix::kept(rows);
  }

  // The biases laid end to end, or an undefined tensor where there are none.
  static Tensor bias(const LinearWeights& w) {
    if (std::ranges::none_of(w.biases_, [](const Variable& bias) { return bias.defined(); })) return {};
    if (w.biases_.size() == 1) return w.biases_[0].value().reshape({w.outputs()});
    Tensor whole = Tensor::zeros({w.outputs()});
    float* next = whole.data();
    for (size_t i = 0; i < w.weights_.size(); ++i) {
      if (w.biases_[i].defined()) std::ranges::copy(w.biases_[i].value().values(), next);
      next += w.weights_[i].shape()[0];
    }
    return whole;
  }

  // Whether the product of x has to be recorded.
  static bool records(const LinearWeights& w, const Variable& x) {
    return Tape::records() && Tape::records(all(w, x));
  }

  static void require_trainable(const LinearWeights& w) {
    for (const Variable& weight : w.weights_) {
      if (weight.value().dtype() != DType::f32) {
        throw UsageError(concat("linear: only f32 weights can be trained, found ",
                                name_of(weight.value().dtype()), " ", weight.shape()));
      }
    }
  }

  static std::vector<Variable> all(const LinearWeights& w, const Variable& x) {
    std::vector<Variable> inputs{x};
    inputs.insert(inputs.end(), w.weights_.begin(), w.weights_.end());
    inputs.insert(inputs.end(), w.biases_.begin(), w.biases_.end());
    return inputs;
  }
};

namespace {

void check(const char* operation, const Variable& x, const LinearWeights& weights) {
  if (x.value().rank() != 2 || x.value().cols() != weights.inputs()) {
    throw ShapeError(concat(operation, ": x ", x.shape(), " does not fit weights [", weights.outputs(), ", ",
                            weights.inputs(), "]: expected [tokens, ", weights.inputs(), "]"));
  }
}

// A tensor that lives no longer than the operation.
Tensor scratch(const Shape& shape) {
  const MemoryScope memory(MemoryUse::scratch);
  return Tensor::empty(shape);
}

void add_weight_gradients(const Tensor& x, const Tensor& dy, const std::vector<Variable>& weights,
                          const std::vector<Variable>& biases) {
  int64_t first = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t outputs = weights[i].shape()[0];
    const Tensor columns = dy.columns(first, outputs);
    if (weights[i].requires_grad()) {
      const GradientSlot slot = weights[i].gradient_slot();
      kernels::matmul_transposed_a(matrix(columns), matrix(x), mutable_matrix(slot.tensor), slot.accumulate);
    }
    if (biases[i].requires_grad()) {
      const GradientSlot slot = biases[i].gradient_slot();
      kernels::cpu::column_sums(columns.data(), dy.rows(), outputs, dy.row_stride(), slot.tensor.data(),
                                slot.accumulate);
    }
    first += outputs;
  }
}

// x W^T + b.
Tensor multiply(const Variable& x, const LinearWeights& weights) {
  const auto form = LinearAccess::forward(weights);
  Tensor y = Tensor::empty({x.value().rows(), weights.outputs()});
  kernels::matmul(matrix(x.value()), form->matrix, form->bias.defined() ? form->bias.data() : nullptr,
                  mutable_matrix(y), Accumulate::no);
  return y;
}

// The shares of x, weights and biases in the gradient of x W^T + b.
void pass_on(const Variable& x, const LinearWeights& weights, const Tensor& dy) {
  if (x.requires_grad()) {
    const GradientSlot slot = x.gradient_slot();
    kernels::matmul(matrix(dy), LinearAccess::backward(weights), nullptr, mutable_matrix(slot.tensor),
                    slot.accumulate);
  }
  add_weight_gradients(x.value(), dy, weights.weights(), weights.biases());
}

}  // namespace

Variable linear(const Variable& x, const LinearWeights& weights) {
  const ProfileScope profile("linear");
  check("linear", x, weights);
  const Tensor y = multiply(x, weights);
  if (!LinearAccess::records(weights, x)) return y;
  return Tape::record("linear", y, [x, &weights](const Tensor& dy) { pass_on(x, weights, dy); });
}

Variable linear_activate(const Variable& x, const LinearWeights& weights, kernels::Activation activation,
                         const kernels::Dropout& dropout) {
  const bool records = LinearAccess::records(weights, x);
  // Of the others the derivative is found from what went in, so that has to stay.
  if (records && activation != kernels::Activation::relu)
    return activate(linear(x, weights), activation, dropout);
  const ProfileScope profile("linear_activate");
  check("linear_activate", x, weights);
  const Tensor y = multiply(x, weights);
  kernels::cpu::activate(activation, y.data(), y.data(), y.rows(), y.cols(), dropout);
  if (!records) return y;
  return Tape::record("linear_activate", y, [x, &weights, y, factor = dropout.scale()](const Tensor& dy) {
    // Nobody reads dy after this.
    kernels::cpu::relu_backward(y.data(), dy.data(), factor, dy.data(), y.numel());
    pass_on(x, weights, dy);
  });
}

CrossEntropyResult linear_cross_entropy(const Variable& x, const LinearWeights& weights, const Tensor& labels,
                                        const CrossEntropyOptions& options) {
  const ProfileScope profile("cross_entropy");
  check("cross_entropy", x, weights);
  const int64_t rows = x.value().rows(), vocabulary = weights.outputs();
  if (labels.numel() != rows) {
    throw ShapeError(
        concat("cross_entropy: x ", x.shape(), " needs ", rows, " labels, found ", labels.shape()));
  }
  for (const int32_t label : labels.values<int32_t>()) {
    if (label < 0 || label >= vocabulary) {
      throw DataError(concat("cross_entropy: label ", label, " is outside the vocabulary of ", vocabulary));
    }
  }
  const bool records = LinearAccess::records(weights, x);
  const auto form = LinearAccess::forward(weights);
  const Tensor& bias = form->bias;
  // The gradients for an upstream gradient of 1. Those of the weights wait in variables of their own until
  // backward().
  const Tensor dx = records && x.requires_grad() ? Tensor::empty(x.shape()) : Tensor();
  const PackedMatrix backward = dx.defined() ? LinearAccess::backward(weights) : PackedMatrix();
  std::vector<Variable> weight_gradients, bias_gradients;
  for (const Variable& w : weights.weights()) {
    weight_gradients.push_back(records && w.requires_grad() ? Variable::parameter(w.value())
                                                            : Variable(w.value()));
  }
  for (const Variable& b : weights.biases()) {
    bias_gradients.push_back(records && b.requires_grad() ? Variable::parameter(b.value()) : Variable());
  }

  CrossEntropyResult result;
  const Tensor loss_rows = Tensor::empty({rows}), nll_rows = Tensor::empty({rows});
  for (int64_t first = 0; first < rows; first += options.chunk_rows) {
    const int64_t count = std::min(options.chunk_rows, rows - first);
    const Tensor x_chunk = x.value().slice_rows(first, count);
    const Tensor logits = scratch({count, vocabulary});
    kernels::matmul(matrix(x_chunk), form->matrix, nullptr, mutable_matrix(logits), Accumulate::no);
    kernels::cpu::cross_entropy({.logits = logits.data(),
                                 .bias = bias.defined() ? bias.data() : nullptr,
                                 .labels = labels.data<int32_t>() + first,
                                 .rows = count,
                                 .cols = vocabulary,
                                 .smoothing = options.label_smoothing,
                                 .grad_scale = options.factor,
                                 .loss = loss_rows.data() + first,
                                 .nll = nll_rows.data() + first});
    if (dx.defined()) {
      kernels::matmul(matrix(logits), backward, nullptr, mutable_matrix(dx.slice_rows(first, count)),
                      Accumulate::no);
    }
    if (records) add_weight_gradients(x_chunk, logits, weight_gradients, bias_gradients);
  }
  for (const float row : loss_rows.values()) result.loss_sum += row;
  for (const float row : nll_rows.values()) result.nll_sum += row;
  const Tensor loss = Tensor::full({1}, static_cast<float>(result.loss_sum * options.factor));
  if (!records) {
    result.loss = loss;
    return result;
  }
  result.loss = Tape::record(
      "cross_entropy", loss, [x, dx, &weights, weight_gradients, bias_gradients](const Tensor& upstream) {
        const auto hand_on = [factor = upstream.item()](const Tensor& gradient, const Variable& to) {
          const GradientSlot slot = to.gradient_slot();
          kernels::cpu::scale(gradient.data(), factor, slot.tensor.data(), gradient.numel(), slot.accumulate);
        };
        if (dx.defined()) hand_on(dx, x);
        for (size_t i = 0; i < weight_gradients.size(); ++i) {
          if (weight_gradients[i].has_grad()) hand_on(weight_gradients[i].grad(), weights.weights()[i]);
          if (bias_gradients[i].has_grad()) hand_on(bias_gradients[i].grad(), weights.biases()[i]);
        }
      });
  return result;
}

}  // namespace qkv

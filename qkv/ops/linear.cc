#include "qkv/ops/linear.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "qkv/kernels/pointwise.h"
#include "qkv/ops/linear_inputs.h"
#include "qkv/ops/linear_product.h"
#include "qkv/ops/low_rank.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/quantize.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

using kernels::PackedMatrix;

void require_bias(const char* operation, const Variable& bias, int64_t outputs) {
  const Tensor& value = bias.value();
  if (value.defined() && value.dtype() == DType::f32 && value.contiguous() && value.numel() == outputs)
    return;
  throw ShapeError(concat(operation, ": expected an f32 bias of ", outputs, " elements, found ",
                          value.defined() ? concat(name_of(value.dtype()), " ", value.shape()) : "none"));
}

// The weights' values as f32; f32 values are not copied.
std::vector<Tensor> dequantized(const std::vector<Weight>& weights) {
  std::vector<Tensor> values;
  for (const Weight& weight : weights) values.push_back(dequantize(weight.value()));
  return values;
}

}  // namespace

struct LinearWeights::State {
  std::vector<Weight> weights;
  std::vector<Variable> biases;
  // Data derived from the weights for products in place, and the weight versions that they belong to.
  std::mutex mutex;
  std::shared_ptr<const LinearProduct::RightHandSide> in_place;
  std::vector<uint64_t> versions;

  template <class Visit>
  void for_each_version(const Visit& visit) const {
    for (const Weight& weight : weights) visit(weight.version());
    for (const Variable& bias : biases) visit(bias.defined() ? bias.version() : 0);
  }

  // The concatenated biases, or an undefined tensor if there are none.
  Tensor bias() const {
    if (std::ranges::none_of(biases, &Variable::defined)) return {};
    if (biases.size() == 1) return biases[0].value().reshape({biases[0].value().numel()});
    int64_t outputs = 0;
    for (const Weight& weight : weights) outputs += weight.values().dim(0);
    Tensor whole = Tensor::zeros({outputs}, DType::f32, weights[0].values().device());
    int64_t first = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t count = weights[i].values().dim(0);
      if (biases[i].defined()) whole.slice_rows(first, count).copy_from(biases[i].value().reshape({count}));
      first += count;
    }
    return whole;
  }

  bool current() const {
    size_t i = 0;
    bool same = in_place != nullptr;
    for_each_version([&](uint64_t version) { same = same && version == versions[i++]; });
    return same;
  }
};

LinearWeights::LinearWeights(std::vector<Weight> weights, std::vector<Variable> biases)
    : state_(std::make_shared<State>()) {
  if (weights.empty()) throw UsageError("linear: expected at least one weight, found none");
  if (!std::ranges::all_of(weights, &Weight::defined))
    throw UsageError("linear: expected weights, found an undefined one");
  if (!biases.empty() && biases.size() != weights.size()) {
    throw UsageError(concat("linear: expected no biases or one for each of ", weights.size(),
                            " weights, found ", biases.size()));
  }
  biases.resize(weights.size());
  state_->weights = std::move(weights);
  state_->biases = std::move(biases);
}

LinearWeights::State& LinearWeights::state() const {
  if (!state_) throw UsageError("linear: expected weights, found those of a map that was moved from");
  return *state_;
}

const std::vector<Weight>& LinearWeights::weights() const { return state().weights; }
const std::vector<Variable>& LinearWeights::biases() const { return state().biases; }
int64_t LinearWeights::inputs() const { return weights().front().values().dim(1); }

int64_t LinearWeights::outputs() const {
  int64_t sum = 0;
  for (const Weight& weight : weights()) sum += weight.values().dim(0);
  return sum;
}

LinearProduct::LinearProduct(const char* operation, const Variable& x, const LinearWeights& weights,
                             WeightLayout layout)
    : x_(x), weights_(weights), layout_(layout) {
  const std::vector<Weight>& all = weights.weights();
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor& values = all[i].values();
    require_weight(operation, values, all[i].scales());
    const bool alike =
        values.dtype() == all[0].dtype() || (values.dtype() != DType::i8 && all[0].dtype() != DType::i8);
    if (values.dim(1) != all[0].values().dim(1) || !alike) {
      throw ShapeError(concat(operation, ": expected weights of one width, and all or none of i8, found ",
                              name_of(all[0].dtype()), " ", all[0].shape(), " and ", name_of(values.dtype()),
                              " ", values.shape()));
    }
    require_low_rank(operation, all[i]);
    if (weights.biases()[i].defined()) require_bias(operation, weights.biases()[i], values.dim(0));
  }
  if (!x.defined() || !x.value().defined()) throw ShapeError(concat(operation, ": x is undefined"));
  const DType dtype = x.value().dtype();
  if (x.value().rank() != 2 || x.value().dim(1) != weights.inputs() || !is_activation(x.value())) {
    throw ShapeError(concat(operation, ": x ", name_of(dtype), " ", x.shape(), " does not fit weights [",
                            weights.outputs(), ", ", weights.inputs(), "]: expected ",
                            x.value().device() == Device::cpu ? "f32" : "f32 or bf16", " [tokens, ",
                            weights.inputs(), "]"));
  }
  LinearInputs::report(x.value(), all);
  if (!Tape::records()) return;
  bool trains = false;
  for (const Weight& weight : all) trains = trains || weight.requires_grad();
  for (const Weight& weight : all) {
    if (!trains || weight.dtype() == DType::f32) continue;
    throw UsageError(concat(operation, ": only f32 weights can be trained, found ", name_of(weight.dtype()),
                            " ", weight.shape(), "; freeze them, or load them as f32"));
  }
  records_ = trains || Tape::records({x}) || Tape::records(weights.biases());
  for (const Weight& weight : all) {
    if (const LowRank* update = weight.low_rank())
      records_ = records_ || Tape::records({update->a, update->b});
  }
}

std::shared_ptr<const LinearProduct::RightHandSide> LinearProduct::right_hand_side() const {
  LinearWeights::State& state = *weights_.state_;
  if (layout_ != WeightLayout::in_place && state.weights[0].dtype() == DType::f32) {
    {
      const std::lock_guard lock(state.mutex);
      state.in_place = nullptr;  // the weights are about to change
    }
    const ProfileScope profile("packing");
    const MemoryScope memory(MemoryUse::packed);
    return std::make_shared<const RightHandSide>(
        RightHandSide{PackedMatrix::transposed(dequantized(state.weights), operands()), {}, state.bias()});
  }
  return in_place(weights_);
}

std::shared_ptr<const LinearProduct::RightHandSide> LinearProduct::in_place(const LinearWeights& weights) {
  LinearWeights::State& state = weights.state();
  const std::lock_guard lock(state.mutex);
  if (!state.current()) {
    const ProfileScope profile("packing");
    state.in_place = nullptr;
    // Before in_place: an allocation may fail.
    state.versions.clear();
    state.for_each_version([&](uint64_t version) { state.versions.push_back(version); });
    std::vector<QuantizedTensor> values;
    for (const Weight& weight : state.weights) values.push_back(weight.value());
    state.in_place =
        std::make_shared<const RightHandSide>(RightHandSide{{}, kernels::WeightView(values), state.bias()});
  }
  return state.in_place;
}

void LinearProduct::multiply(const Tensor& x, const RightHandSide& right, const Tensor& bias, Tensor& y) {
  if (right.packed.empty()) {
    kernels::matmul(x, right.in_place, bias, y, Accumulate::no);
  } else {
    kernels::matmul(x, right.packed, bias, y, Accumulate::no);
  }
}

PackedMatrix LinearProduct::packed_for_backward() const {
  const ProfileScope profile("packing");
  const MemoryScope memory(MemoryUse::packed);
  return PackedMatrix::plain(dequantized(weights_.weights()), operands());
}

void LinearProduct::multiply_backward(const Tensor& dy, const PackedMatrix& weights, Tensor& dx,
                                      Accumulate accumulate) {
  kernels::matmul(dy, weights, {}, dx, accumulate);
}

void LinearProduct::add_weight_gradients(const Tensor& x, const Tensor& dy,
                                         const std::vector<Variable>& weights,
                                         const std::vector<Variable>& biases) const {
  int64_t first = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t outputs = weights[i].shape()[0];
    const Tensor columns = dy.columns(first, outputs);
    if (weights[i].requires_grad()) {
      GradientSlot slot = weights[i].gradient_slot();
      kernels::matmul_transposed_a(columns, x, slot.tensor, slot.accumulate, operands());
    }
    if (biases[i].requires_grad()) {
      GradientSlot slot = biases[i].gradient_slot();
      kernels::column_sums(columns, slot);
    }
    first += outputs;
  }
}

template <class Visit>
void LinearProduct::for_each_low_rank(const Visit& visit) const {
  int64_t first = 0;
  for (const Weight& weight : weights_.weights()) {
    const int64_t outputs = weight.values().dim(0);
    if (const LowRank* update = weight.low_rank()) visit(*update, first, outputs);
    first += outputs;
  }
}

bool LinearProduct::has_low_rank() const {
  bool found = false;
  for_each_low_rank([&](const LowRank&, int64_t, int64_t) { found = true; });
  return found;
}

std::vector<Tape::Input> LinearProduct::inputs() const {
  const std::vector<Weight>& weights = weights_.weights();
  const bool x_is_read =
      has_low_rank() || std::ranges::any_of(weights, [](const Weight& w) { return w.requires_grad(); });
  std::vector<Tape::Input> inputs{{x_, x_is_read}};
  for (const Weight& weight : weights) {
    inputs.emplace_back(weight.variable(), x_.requires_grad());
    if (weight.scale_variable().defined()) inputs.emplace_back(weight.scale_variable(), x_.requires_grad());
  }
  for (const Variable& bias : weights_.biases()) inputs.emplace_back(bias, false);
  for_each_low_rank([&](const LowRank& update, int64_t, int64_t) {
    inputs.emplace_back(update.a);
    inputs.emplace_back(update.b);
  });
  return inputs;
}

Tensor LinearProduct::forward() const {
  const auto right = right_hand_side();
  Tensor y = Tensor::empty({x_.value().dim(0), weights_.outputs()}, x_.value().dtype(), x_.value().device());
  multiply(x_.value(), *right, right->bias, y);
  for_each_low_rank([&](const LowRank& update, int64_t first, int64_t outputs) {
    Tensor columns = y.columns(first, outputs);
    add_low_rank(x_.value(), update, layout_, columns);
  });
  return y;
}

void LinearProduct::backward(const Tensor& dy) const {
  if (x_.requires_grad()) {
    GradientSlot slot = x_.gradient_slot();
    multiply_backward(dy, packed_for_backward(), slot.tensor, slot.accumulate);
  }
  std::vector<Variable> weights;
  for (const Weight& weight : weights_.weights()) weights.push_back(weight.variable());
  add_weight_gradients(x_.value(), dy, weights, weights_.biases());
  for_each_low_rank([&](const LowRank& update, int64_t first, int64_t outputs) {
    low_rank_backward(x_, update, dy.columns(first, outputs));
  });
}

Variable linear(const Variable& x, const LinearWeights& weights, WeightLayout layout) {
  const ProfileScope profile("linear");
  const LinearProduct product("linear", x, weights, layout);
  const Tensor y = product.forward();
  if (!product.records()) return y;
  return Tape::record("linear", y, product.inputs(), [product](const Tensor& dy) { product.backward(dy); });
}

}  // namespace qkv

#include "qkv/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"
#include "qkv/kernels/optimizer.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/profile.h"

namespace qkv::optim {

ParameterFilter named(std::string prefix) {
  return [prefix = std::move(prefix)](const NamedParameter& one) { return one.name.starts_with(prefix); };
}

ParameterGroup no_decay_of_vectors() {
  return {.contains = [](const NamedParameter& one) { return one.parameter.shape.rank() < 2; },
          .weight_decay = 0.0f};
}

namespace {

// The rules access as many elements of the value and the states as the parameter has.
void require_trainable(const NamedParameter& one) {
  const Variable& variable = one.parameter.variable;
  if (!variable.defined() || !variable.value().defined()) {
    throw UsageError(concat("optimizer: expected a parameter with values, found none in ", one.name,
                            " (initialise or load the module first)"));
  }
  const Tensor& value = variable.value();
  if (value.dtype() != DType::f32 || value.shape() != one.parameter.shape || !value.contiguous()) {
    throw UsageError(concat("optimizer: expected ", one.name, " to be f32 ", one.parameter.shape, ", found ",
                            name_of(value.dtype()), " ", value.shape()));
  }
}

}  // namespace

Optimizer::Optimizer(std::string name, std::vector<std::string> states, float weight_decay,
                     std::vector<NamedParameter> parameters, const OptimizerOptions& options)
    : name_(std::move(name)),
      state_names_(std::move(states)),
      parameters_(std::move(parameters)),
      options_(options) {
  if (!(options.clip_norm >= 0)) {
    throw UsageError(concat("clip_norm: expected 0 or more, found ", options.clip_norm));
  }
  if (!(options.average_decay >= 0 && options.average_decay < 1)) {
    throw UsageError(concat("average_decay: expected 0 to below 1, found ", options.average_decay));
  }
  for (const NamedParameter& one : parameters_) {
    require_trainable(one);
    State& state = states_.emplace_back();
    state.weight_decay = weight_decay;
    const auto group = std::ranges::find_if(
        options_.groups, [&](const ParameterGroup& some) { return some.contains && some.contains(one); });
    if (group == options_.groups.end()) continue;
    if (!(group->learning_rate_factor >= 0) || !std::isfinite(group->learning_rate_factor) ||
        !(group->weight_decay.value_or(0) >= 0)) {
      throw UsageError(concat("optimizer: group of ", one.name,
                              ": expected a learning_rate_factor and a weight_decay of 0 or more, found ",
                              group->learning_rate_factor, " and ", group->weight_decay.value_or(0)));
    }
    state.learning_rate_factor = group->learning_rate_factor;
    state.weight_decay = group->weight_decay.value_or(weight_decay);
    state.frozen = group->frozen;
  }
}

void Optimizer::make_states() {
  const MemoryScope memory(MemoryUse::optimizer);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& value = parameters_[i].parameter.variable.value();
    for (size_t k = 0; k < state_names_.size(); ++k) {
      states_[i].tensors.push_back(
          owns(i) ? from_host(initial_state(k, parameters_[i].parameter.shape), value.device()) : Tensor());
    }
    if (averages() && owns(i)) states_[i].average = value.clone();
  }
}

Tensor Optimizer::initial_state(size_t /*i*/, const Shape& shape) const { return Tensor::zeros(shape); }

bool Optimizer::takes_part(size_t i) const {
  return owns(i) && !states_[i].frozen && parameters_[i].parameter.variable.has_grad();
}

std::vector<double> Optimizer::squared_norms() const {
  const Tensor own = squares();
  return squared_norms(kernels::doubles({&own, 1}));
}

Tensor Optimizer::squares() const {
  const ProfileScope profile("optimizer");
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!takes_part(i)) continue;
    const auto& [name, parameter] = parameters_[i];
    require_trainable(parameters_[i]);
    const Tensor gradient = parameter.variable.grad();
    if (gradient.shape() != parameter.shape) {
      throw UsageError(concat("optimizer: expected a gradient of the shape of ", name, " ", parameter.shape,
                              ", found ", gradient.shape()));
    }
    gradients.push_back(gradient);
  }
  return kernels::sums_of_squares(gradients);
}

std::vector<double> Optimizer::squared_norms(std::span<const double> squares) const {
  std::vector<double> norms(parameters_.size(), kNoGradient);
  for (size_t i = 0, next = 0; i < parameters_.size(); ++i) {
    if (takes_part(i)) norms.at(i) = squares[next++];
  }
  return norms;
}

double Optimizer::step(double learning_rate, const std::vector<double>& squared_norms) {
  const ProfileScope profile("optimizer");
  if (!(learning_rate >= 0) || !std::isfinite(learning_rate))
    throw UsageError(concat("learning rate: expected 0 or more, found ", learning_rate));
  if (squared_norms.size() != parameters_.size()) {
    throw UsageError(concat("optimizer: expected a squared norm for each of ", parameters_.size(),
                            " parameters, found ", squared_norms.size()));
  }
  double squares = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const double own = squared_norms[i];
    if (!std::isfinite(own)) {
      throw NumericError(concat("step ", steps_ + 1, ": the gradient of ", parameters_[i].name, " ",
                                parameters_[i].parameter.shape, " holds ",
                                std::isnan(own) ? "a NaN" : "an infinity"));
    }
    if (own != kNoGradient) squares += own;
  }
  const double norm = std::sqrt(squares);
  const bool clip = options_.clip_norm > 0 && norm > options_.clip_norm;
  ++steps_;
  const double t = static_cast<double>(steps_);
  const kernels::OptimizerPass pass{
      .gradient_factor = clip ? static_cast<float>(options_.clip_norm / norm) : 1.0f,
      .average_decay = static_cast<float>(std::min<double>(options_.average_decay, (1 + t) / (10 + t)))};
  std::vector<kernels::OptimizerSlot> slots;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (squared_norms[i] == kNoGradient) continue;
    State& state = states_[i];
    ++state.steps;
    if (!takes_part(i)) continue;  // another rank's
    Variable& variable = parameters_[i].parameter.variable;
    kernels::OptimizerSlot& slot = slots.emplace_back();
    slot.value = variable.mutable_value();
    slot.gradient = variable.grad();
    std::ranges::copy(state.tensors, slot.state.begin());
    slot.average = state.average;
    slot.learning_rate = static_cast<float>(learning_rate * state.learning_rate_factor);
    slot.weight_decay = state.weight_decay;
    slot.step = state.steps;
  }
  update(pass, slots);
  clear_gradients();
  return norm;
}

const Tensor& Optimizer::average(size_t i) const {
  if (i >= states_.size()) {
    throw UsageError(
        concat("optimizer: average: expected one of ", states_.size(), " parameters, found number ", i));
  }
  return states_[i].average;
}

void Optimizer::clear_gradients() {
  for (auto& [name, parameter] : parameters_) {
    if (parameter.variable.has_grad()) parameter.variable.clear_grad();
  }
}

std::vector<io::NamedTensor> Optimizer::state() const {
  std::vector<io::NamedTensor> result;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (io::NamedTensor& one : state_of(i)) result.push_back(std::move(one));
  }
  result.push_back(step_counts());
  return result;
}

std::vector<io::NamedTensor> Optimizer::state_of(size_t i) const {
  std::vector<io::NamedTensor> result;
  for (size_t k = 0; k < state_names_.size(); ++k) {
    if (const Tensor& tensor = states_.at(i).tensors[k]; tensor.defined())
      result.push_back({state_name(k, i), tensor});
  }
  if (const Tensor& average = states_.at(i).average; average.defined())
    result.push_back({average_name(i), average});
  return result;
}

std::vector<Optimizer::StateTensor> Optimizer::layout_of(size_t i) const {
  const Shape& shape = parameters_.at(i).parameter.shape;
  std::vector<StateTensor> result;
  for (size_t k = 0; k < state_names_.size(); ++k) {
    if (const Tensor initial = initial_state(k, shape); initial.defined())
      result.push_back({state_name(k, i), initial.shape()});
  }
  if (averages()) result.push_back({average_name(i), shape});
  return result;
}

io::NamedTensor Optimizer::step_counts() const {
  std::vector<int32_t> steps{static_cast<int32_t>(steps_)};
  for (const State& state : states_) steps.push_back(static_cast<int32_t>(state.steps));
  return {name_ + ".steps", Tensor::from(steps, {std::ssize(steps)})};
}

void Optimizer::restore(const io::SafetensorsFile& file) {
  restore([&file](const std::string& name, const Shape& shape) { return file.tensor(name, shape); });
}

void Optimizer::restore(const std::function<Tensor(const std::string& name, const Shape& shape)>& saved) {
  const Tensor steps = saved(name_ + ".steps", {std::ssize(parameters_) + 1});
  steps_ = steps.data<int32_t>()[0];
  for (size_t i = 0; i < parameters_.size(); ++i) {
    states_[i].steps = steps.data<int32_t>()[i + 1];
    for (auto& [name, tensor] : state_of(i)) tensor.copy_from(saved(name, tensor.shape()));
  }
}

std::string Optimizer::state_name(size_t k, size_t i) const {
  return concat(name_, ".", state_names_[k], "/", parameters_[i].name);
}

std::string Optimizer::average_name(size_t i) const { return "average/" + parameters_[i].name; }

}  // namespace qkv::optim

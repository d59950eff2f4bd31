#include "qkv/train/adam.h"

#include <algorithm>
#include <cmath>

#include "qkv/kernels/optimizer.h"
#include "qkv/ops/profile.h"

namespace qkv::train {

std::string first_non_finite(const std::vector<NamedParameter>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    const Tensor& value = parameter.variable.value();
    if (!kernels::all_finite(value.data(), value.numel())) return name;
  }
  return {};
}

Adam::Adam(std::vector<NamedParameter> parameters, const AdamOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const MemoryScope memory(MemoryUse::optimizer);
  for (const auto& [name, parameter] : parameters_) {
    slots_.push_back({.first = Tensor::zeros(parameter.shape),
                      .second = Tensor::zeros(parameter.shape),
                      .average = averages() ? parameter.variable.value().clone() : Tensor()});
  }
}

double Adam::step(double learning_rate) {
  const ProfileScope profile("optimizer");
  double squares = 0;
  for (const auto& [name, parameter] : parameters_) {
    if (!parameter.variable.has_grad()) continue;
    const Tensor gradient = parameter.variable.grad();
    const double own = kernels::sum_of_squares(gradient.data(), gradient.numel());
    if (!std::isfinite(own)) {
      throw NumericError(concat("step ", steps_ + 1, ": the gradient of ", name, " ", parameter.shape,
                                " holds ", std::isnan(own) ? "a NaN" : "an infinity"));
    }
    squares += own;
  }
  const double norm = std::sqrt(squares);
  const bool clip = options_.clip_norm > 0 && norm > options_.clip_norm;

  ++steps_;
  kernels::AdamStep step{.learning_rate = static_cast<float>(learning_rate),
                         .beta1 = options_.beta1,
                         .beta2 = options_.beta2,
                         .epsilon = options_.epsilon,
                         .weight_decay = options_.weight_decay,
                         .gradient_factor = clip ? static_cast<float>(options_.clip_norm / norm) : 1.0f,
                         .step = steps_};
  std::vector<kernels::AdamSlot> matrices, vectors;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const nn::Parameter& parameter = parameters_[i].parameter;
    if (!parameter.variable.has_grad()) continue;
    const Slot& slot = slots_[i];
    (parameter.shape.rank() > 1 ? matrices : vectors)
        .push_back({.value = parameter.variable.value().data(),
                    .gradient = parameter.variable.grad().data(),
                    .first_moment = slot.first.data(),
                    .second_moment = slot.second.data(),
                    .average = averages() ? slot.average.data() : nullptr,
                    .count = parameter.shape.numel()});
  }
  const double t = static_cast<double>(steps_);
  const float decay = static_cast<float>(std::min<double>(options_.average_decay, (1 + t) / (10 + t)));
  kernels::adam(step, matrices, decay);
  step.weight_decay = 0;
  kernels::adam(step, vectors, decay);

  for (auto& [name, parameter] : parameters_) {
    if (!parameter.variable.has_grad()) continue;
    parameter.variable.mark_modified();
    parameter.variable.clear_grad();
  }
  return norm;
}

std::vector<io::NamedTensor> Adam::state() const {
  std::vector<io::NamedTensor> result;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    result.push_back({"adam.first/" + name, slots_[i].first});
    result.push_back({"adam.second/" + name, slots_[i].second});
    if (averages()) result.push_back({"average/" + name, slots_[i].average});
  }
  return result;
}

void Adam::restore(const io::SafetensorsFile& file, int64_t steps) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, parameter] = parameters_[i];
    slots_[i].first.copy_from(file.tensor("adam.first/" + name, parameter.shape));
    slots_[i].second.copy_from(file.tensor("adam.second/" + name, parameter.shape));
    if (averages()) slots_[i].average.copy_from(file.tensor("average/" + name, parameter.shape));
  }
  steps_ = steps;
}

}  // namespace qkv::train

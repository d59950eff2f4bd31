#pragma once
// The optimizer: Adam with clipping by the global norm and, if wanted, a moving average of the weights.

#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/nn/parameter.h"

namespace qkv::train {

struct NamedParameter {
  std::string name;
  nn::Parameter parameter;
};

template <class Module>
std::vector<NamedParameter> parameters_of(const Module& module) {
  std::vector<NamedParameter> result;
  module.visit([&](const std::string& name, const nn::Parameter& parameter) {
    result.push_back({name, parameter});
  });
  return result;
}

// The first of the parameters whose numbers hold a NaN or an infinity; empty where all are finite.
std::string first_non_finite(const std::vector<NamedParameter>& parameters);

struct AdamOptions {
  float beta1 = 0.9f, beta2 = 0.98f, epsilon = 1e-9f;  // the paper's, section 5.3
  // Decoupled (Loshchilov and Hutter 2019); of matrices only, not of biases and norms.
  float weight_decay = 0;
  // Gradients whose norm, over all parameters together, is larger are scaled down to it; 0: never.
  float clip_norm = 0;
  // Of the moving average of the weights; 0: none. At step t the decay is min(average_decay,
  // (1 + t) / (10 + t)), so that the average soon forgets the initial weights.
  float average_decay = 0;
};

// One step over all parameters of a module. m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2,
// w <- w - lr * m^ / (sqrt(v^) + epsilon) (Kingma and Ba 2015).
class Adam {
 public:
  // The parameters must have their numbers. Moments start at zero, the average at the weights.
  Adam(std::vector<NamedParameter> parameters, const AdamOptions& options);
  template <class Module>
  Adam(const Module& module, const AdamOptions& options) : Adam(parameters_of(module), options) {}

  // Uses up the gradients. A parameter without one stays as it is. Returns the norm of all gradients before
  // clipping. Throws NumericError, naming the first parameter whose gradient is not finite, before anything
  // has changed.
  double step(double learning_rate);

  int64_t steps() const { return steps_; }  // how many there were
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  bool averages() const { return options_.average_decay > 0; }
  // The moving average of parameters()[i]; shared, not copied. Undefined without averaging.
  const Tensor& average(size_t i) const { return slots_[i].average; }

  // Moments and averages under "adam.first/NAME", "adam.second/NAME" and "average/NAME"; shared, not copied.
  std::vector<io::NamedTensor> state() const;
  // Throws DataError where the file lacks a tensor or has another shape.
  void restore(const io::SafetensorsFile& file, int64_t steps);

 private:
  struct Slot {
    Tensor first, second, average;
  };

  std::vector<NamedParameter> parameters_;
  std::vector<Slot> slots_;
  AdamOptions options_;
  int64_t steps_ = 0;
};

}  // namespace qkv::train

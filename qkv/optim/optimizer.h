#pragma once
// Optimizers: each changes a list of parameters by their gradients, once a step. They need nothing but
// parameters; the learning rate of each step is the caller's (qkv/train/schedule.h has functions for it):
//
//   optim::AdamW optimizer(model, {.weight_decay = 0.01f}, {.clip_norm = 1});
//   for (...) {
//     Tape tape;
//     tape.backward(loss_of(batch));
//     optimizer.step(learning_rate);
//   }
//
// Names, options and meanings are those of torch.optim; tests hold each to it.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/nn/named_parameters.h"

namespace qkv::kernels {
struct OptimizerPass;
struct OptimizerSlot;
}  // namespace qkv::kernels

namespace qkv::optim {

using nn::NamedParameter;
using ParameterFilter = std::function<bool(const NamedParameter&)>;

// Settings of some of the parameters.
struct ParameterGroup {
  ParameterFilter contains;                // which; empty: none
  double learning_rate_factor = 1;         // multiplies the step's learning rate
  std::optional<float> weight_decay = {};  // in place of the optimizer's
  bool frozen = false;  // left as they are (nn::set_requires_grad also saves the work of their gradients)
};

// Parameters whose names begin with `prefix`: "encoder.layers.0.".
ParameterFilter named(std::string prefix);
// The usual exception from weight decay: biases and the weights of norms, which are all vectors.
ParameterGroup no_decay_of_vectors();

// What every optimizer can do beside its rule.
struct OptimizerOptions {
  // Gradients whose norm, over all parameters together, is larger are scaled down to it; 0: never.
  float clip_norm = 0;
  // Of an exponential moving average of the weights; 0: none. At step t the decay is
  // min(average_decay, (1 + t) / (10 + t)), so that the average soon forgets the initial weights.
  float average_decay = 0;
  // A parameter belongs to the first group that contains it; one of no group has factor 1 and the
  // optimizer's weight decay.
  std::vector<ParameterGroup> groups = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update by the gradients that the parameters have, which are used up. A parameter without one stays as
  // it is. Returns the norm of all gradients before clipping. Throws UsageError for a learning rate that is
  // negative or not finite; NumericError, naming the first parameter whose gradient is not finite. Nothing
  // has changed then.
  double step(double learning_rate);
  // Forgets all gradients.
  void clear_gradients();

  int64_t steps() const { return steps_; }  // done so far
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  bool averages() const { return options_.average_decay > 0; }
  // The moving average of parameters()[i]; shared, not copied. Undefined without averaging.
  const Tensor& average(size_t i) const { return states_[i].average; }

  // All that restore() needs for the same updates, bit for bit: "adam.first/NAME", "average/NAME",
  // "adam.steps". Shared with the optimizer, not copied: io::write_safetensors() writes it to a file.
  std::vector<io::NamedTensor> state() const;
  // Throws DataError where the file lacks a tensor or has another shape.
  void restore(const io::SafetensorsFile& file);

 protected:
  // `name` and `states` are what state() calls them. The parameters must have their numbers; averages start
  // there.
  Optimizer(std::string name, std::vector<std::string> states, float weight_decay,
            std::vector<NamedParameter> parameters, const OptimizerOptions& options);
  // The rule, of those that have a gradient.
  virtual void update(const kernels::OptimizerPass& pass,
                      std::span<const kernels::OptimizerSlot> slots) const = 0;
  // The state before the first step: state i of a parameter. Undefined: the parameter has none. Zeros of the
  // parameter's shape unless overridden; called once by make_states(), which the derived constructor calls.
  virtual Tensor initial_state(size_t i, const Shape& shape) const;
  void make_states();

 private:
  struct State {
    double learning_rate_factor = 1;
    float weight_decay = 0;
    bool frozen = false;
    int64_t steps = 0;  // those in which it had a gradient
    std::vector<Tensor> tensors;
    Tensor average;
  };
  bool takes_part(size_t i) const;
  double gradient_norm() const;

  std::string name_;
  std::vector<std::string> state_names_;
  std::vector<NamedParameter> parameters_;
  std::vector<State> states_;
  OptimizerOptions options_;
  int64_t steps_ = 0;
};

}  // namespace qkv::optim

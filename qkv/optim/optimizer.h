#pragma once
// Optimizers update a list of parameters by their gradients, once per step. They depend on parameters only;
// the caller supplies the learning rate of each step (qkv/train/schedule.h has schedules):
//
//   optim::AdamW optimizer(model, {.weight_decay = 0.01f}, {.clip_norm = 1});
//   for (...) {
//     Tape tape;
//     tape.backward(loss_of(batch));
//     optimizer.step(learning_rate);
//   }
//
// Names, options and semantics follow torch.optim; tests compare each rule with recorded steps of it.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/nn/named_parameters.h"

namespace qkv::io {
class SafetensorsFile;  // io/safetensors.h
struct NamedTensor;
}  // namespace qkv::io

namespace qkv::kernels {
struct OptimizerPass;
struct OptimizerSlot;
}  // namespace qkv::kernels

namespace qkv::optim {

using nn::NamedParameter;
using ParameterFilter = std::function<bool(const NamedParameter&)>;

// Settings for some of the parameters.
struct ParameterGroup {
  ParameterFilter contains;                // selects the parameters; empty: none
  double learning_rate_factor = 1;         // multiplies the step's learning rate
  std::optional<float> weight_decay = {};  // overrides the optimizer's
  bool frozen = false;  // excluded from updates (nn::set_requires_grad also saves computing their gradients)
};

// Selects parameters whose names begin with `prefix`: "encoder.layers.0.".
ParameterFilter named(std::string prefix);
// The usual exclusion from weight decay: biases and norm weights, which are the only vectors.
ParameterGroup no_decay_of_vectors();

// Options common to all optimizers.
struct OptimizerOptions {
  // Maximum global norm of all gradients; larger ones are scaled down. 0: off.
  float clip_norm = 0;
  // Exponential moving average of the weights; 0: off. The decay at step t is min(average_decay, (1 + t) /
  // (10 + t)), so that the average soon forgets the initial weights.
  float average_decay = 0;
  // A parameter belongs to the first group that selects it. Without a group, the factor is 1 and the weight
  // decay is the optimizer's.
  std::vector<ParameterGroup> groups = {};
  // By parameter, whether this optimizer updates it and has its state; empty: all. The others belong to the
  // optimizers of other ranks.
  std::vector<bool> share = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters by their gradients, which are consumed. A parameter without a gradient is
  // unchanged. Returns the global gradient norm before clipping. Throws UsageError for a learning rate that
  // is negative or not finite; NumericError naming the first parameter with a non-finite gradient. If it
  // throws, nothing has changed.
  double step(double learning_rate) { return step(learning_rate, squared_norms()); }
  // The same in two parts, for optimizers that have a share each: the sum of squares of each own gradient, or
  // kNoGradient, and the step with those of all parameters.
  std::vector<double> squared_norms() const;
  // Without a wait for the device: the sums of squares of the gradients that take part, as bits of doubles
  // (kernels::sums_of_squares()); and their place among all parameters.
  Tensor squares() const;
  std::vector<double> squared_norms(std::span<const double> squares) const;
  double step(double learning_rate, const std::vector<double>& squared_norms);
  static constexpr double kNoGradient = -1;
  // Drops all gradients.
  void clear_gradients();

  int64_t steps() const { return steps_; }  // number of completed steps
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  bool averages() const { return options_.average_decay > 0; }
  // The moving average of parameters()[i]; shared, not copied. Undefined without averaging. Throws UsageError
  // for a parameter that does not exist.
  const Tensor& average(size_t i) const;
  bool owns(size_t i) const { return options_.share.empty() || options_.share.at(i); }

  // The state for restore() to continue with the same bits: "adam.first/NAME", "average/NAME", "adam.steps".
  // Shared with the optimizer, not copied; write it to a file with io::write_safetensors().
  std::vector<io::NamedTensor> state() const;
  // Its parts: of one parameter, of which this optimizer may own none, and "adam.steps".
  std::vector<io::NamedTensor> state_of(size_t i) const;
  io::NamedTensor step_counts() const;
  struct StateTensor {
    std::string name;
    Shape shape;
  };
  // Of any parameter.
  std::vector<StateTensor> layout_of(size_t i) const;
  // Throws DataError if the file lacks a tensor or has one of another shape.
  void restore(const io::SafetensorsFile& file);
  // `saved` returns the saved tensor of a name and shape. Called for the step counts first, then for the own
  // parameters in their order, as layout_of() lists their tensors.
  void restore(const std::function<Tensor(const std::string& name, const Shape& shape)>& saved);

 protected:
  // `name` and `states` are the names in state(). The parameters must have values; averages start from them.
  Optimizer(std::string name, std::vector<std::string> states, float weight_decay,
            std::vector<NamedParameter> parameters, const OptimizerOptions& options);
  // The update rule, for parameters with a gradient.
  virtual void update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const = 0;
  // The initial value of state i of a parameter; undefined: the parameter has no such state. By default zeros
  // of the parameter's shape. Called once by make_states(), which the derived constructor calls.
  virtual Tensor initial_state(size_t i, const Shape& shape) const;
  void make_states();

 private:
  struct State {
    double learning_rate_factor = 1;
    float weight_decay = 0;
    bool frozen = false;
    int64_t steps = 0;  // number of steps with a gradient
    std::vector<Tensor> tensors;
    Tensor average;
  };
  bool takes_part(size_t i) const;
  std::string state_name(size_t k, size_t i) const;
  std::string average_name(size_t i) const;

  std::string name_;
  std::vector<std::string> state_names_;
  std::vector<NamedParameter> parameters_;
  std::vector<State> states_;
  OptimizerOptions options_;
  int64_t steps_ = 0;
};

}  // namespace qkv::optim

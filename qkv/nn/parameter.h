#pragma once
// Learned parameters.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "qkv/ops/weight.h"

namespace qkv::nn {

// Initial distribution.
struct Initializer {
  enum class Kind {
    zeros,
    ones,
    normal,          // mean 0, standard deviation `deviation`
    xavier_uniform,  // within +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)
  };
  Kind kind = Kind::zeros;
  float deviation = 1;
};

// A parameter has a shape and an initial distribution from construction on; values are allocated by
// initialising or loading, so that loading never holds two copies. A handle: copies refer to the same
// parameter.
struct Parameter {
  Parameter() = default;
  // f32 only: norm weights, biases, position tables.
  Parameter(const Shape& shape_in, Initializer initializer_in)
      : variable(Variable::parameter()), shape(shape_in), initializer(initializer_in) {}
  // A weight matrix that only products and table look-ups read: f32, bf16, f16 or i8 (ops/quantize.h).
  static Parameter weight_matrix(const Shape& shape, Initializer initializer);

  // Likewise, one whose rows are tokens: a table of embeddings, an output matrix.
  static Parameter token_matrix(const Shape& shape, Initializer initializer);

  bool defined() const { return variable.defined(); }
  bool allows_quantized() const { return scales.defined(); }
  // The dtype of its values in a model with weights of this dtype. Rows of tokens have at least eight bits:
  // nothing makes up for the error of a token's only row.
  DType dtype_in(DType weights) const { return of_tokens && in_blocks(weights) ? DType::q8_0 : weights; }
  // For products and table look-ups.
  Weight weight() const { return {variable, scales, low_rank}; }
  // Replaces the values and scales. Throws UsageError for a dtype other than f32 unless allows_quantized().
  void set_value(const QuantizedTensor& value) const;

  Variable variable;
  Variable scales;                    // of an i8 weight matrix; no value for other dtypes
  std::shared_ptr<LowRank> low_rank;  // of a weight matrix; null for others. See nn/low_rank.h
  Shape shape;
  Initializer initializer;
  bool of_tokens = false;
};

// Called once for each parameter with its full name ("encoder.layers.0.fc1.weight"), always in the same
// order. Every module has a visit(); initialising, loading, saving, optimising and counting all use it.
// (Parameter is a handle: its values can be changed through a const reference.)
using ParameterVisitor = std::function<void(const std::string& name, const Parameter& parameter)>;

// Visits a part with the part's name as prefix.
template <class Module>
void visit_part(const ParameterVisitor& visitor, const std::string& name, const Module& module) {
  module.visit(
      [&](const std::string& inner, const Parameter& parameter) { visitor(name + "." + inner, parameter); });
}

template <class Module>
void visit_parts(const ParameterVisitor& visitor, const std::string& name,
                 const std::vector<Module>& modules) {
  for (size_t i = 0; i < modules.size(); ++i) visit_part(visitor, name + "." + std::to_string(i), modules[i]);
}

// Initialises a parameter: a pure function of (seed, name).
void initialise(const std::string& name, const Parameter& parameter, uint64_t seed);

template <class Module>
void initialise(const Module& module, uint64_t seed) {
  module.visit(
      [seed](const std::string& name, const Parameter& parameter) { initialise(name, parameter, seed); });
}

// Likewise, but matrices that would be Glorot's and Bengio's (xavier_uniform) have another distribution.
template <class Module>
void initialise(const Module& module, uint64_t seed, const Initializer& matrices) {
  module.visit([&](const std::string& name, Parameter parameter) {
    if (parameter.initializer.kind == Initializer::Kind::xavier_uniform) parameter.initializer = matrices;
    initialise(name, parameter, seed);
  });
}

// Moves a parameter's values to a device, unless they are there already. Drops its gradient.
void move_to(const Parameter& parameter, Device device);

template <class Module>
void move_to(const Module& module, Device device) {
  module.visit([device](const std::string&, const Parameter& parameter) { move_to(parameter, device); });
}

template <class Module>
int64_t count_parameters(const Module& module) {
  int64_t count = 0;
  module.visit(
      [&count](const std::string&, const Parameter& parameter) { count += parameter.shape.numel(); });
  return count;
}

// Freezes (false) or unfreezes the parameters of a module: see Variable::set_requires_grad().
template <class Module>
void set_requires_grad(const Module& module, bool wanted) {
  module.visit([wanted](const std::string&, const Parameter& parameter) {
    parameter.variable.set_requires_grad(wanted);
  });
}

}  // namespace qkv::nn

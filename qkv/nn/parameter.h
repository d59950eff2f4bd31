#pragma once
// The numbers that a model learns.

#include <cstdint>
#include <functional>
#include <string>

#include "qkv/ops/variable.h"

namespace qkv::nn {

// How a parameter starts.
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

// A parameter has a shape and a rule for starting from the moment its module is made; its numbers come when
// the model is initialised or loaded, so that loading never holds two copies.
struct Parameter {
  Parameter() = default;
  Parameter(const Shape& shape_in, Initializer initializer_in)
      : variable(Variable::parameter()), shape(shape_in), initializer(initializer_in) {}

  bool defined() const { return variable.defined(); }

  Variable variable;
  Shape shape;
  Initializer initializer;
};

// Called once for each parameter with its full name ("encoder.layers.0.fc1.weight"), always in the same
// order. Every module has a visit(); initialising, loading, saving, optimising and counting all go through
// it. (Parameter is a handle: its numbers can be changed through a const one.)
using ParameterVisitor = std::function<void(const std::string& name, const Parameter& parameter)>;

// Passes on what a part visits under the part's name.
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

// Gives a parameter its first numbers: a pure function of (seed, name).
void initialise(const std::string& name, const Parameter& parameter, uint64_t seed);

template <class Module>
void initialise(const Module& module, uint64_t seed) {
  module.visit(
      [seed](const std::string& name, const Parameter& parameter) { initialise(name, parameter, seed); });
}

template <class Module>
int64_t count_parameters(const Module& module) {
  int64_t count = 0;
  module.visit(
      [&count](const std::string&, const Parameter& parameter) { count += parameter.shape.numel(); });
  return count;
}

// Freezes the parameters of a module (false), or lets them learn again: see Variable::set_requires_grad().
template <class Module>
void set_requires_grad(const Module& module, bool wanted) {
  module.visit([wanted](const std::string&, const Parameter& parameter) {
    parameter.variable.set_requires_grad(wanted);
  });
}

}  // namespace qkv::nn

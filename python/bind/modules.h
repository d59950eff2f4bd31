#pragma once
// What the bindings of modules share.

#include "python/bind/fields.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/named_parameters.h"

namespace qkv::python {

// Those that module.visit(visitor) names.
std::vector<nn::NamedParameter> parameters_of(const nb::object& module);

// None: no mask.
nn::AttentionMask mask_of(const nb::object& given);

// Runs a module without the GIL, in the given context or, without one, for inference.
template <class Run>
auto with_context(nn::ForwardContext* context, const Run& run) {
  nn::ForwardContext inference;
  return released([&] { return run(context ? *context : inference); });
}

// visit(visitor): calls visitor(name, Parameter) for each parameter.
template <class Class>
void def_visit(Class& cls) {
  cls.def(
      "visit",
      [](const typename Class::Type& self, const nb::object& visitor) {
        self.visit(
            [&](const std::string& name, const nn::Parameter& parameter) { visitor(name, parameter); });
      },
      nb::arg("visitor"), "Calls visitor(name, Parameter) for each parameter.");
}

}  // namespace qkv::python

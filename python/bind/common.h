#pragma once
// What the files of the binding share. Functions that compute release the GIL; callbacks take it.

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/ops/variable.h"
#include "qkv/tensor/tensor.h"

namespace qkv::python {

namespace nb = nanobind;

void bind_tensors(nb::module_& module);
void bind_ops(nb::module_& module);
void bind_modules(nb::module_& module);
void bind_whole_models(nb::module_& module);
void bind_optimizers(nb::module_& module);
void bind_training(nb::module_& module);
void bind_models(nb::module_& module);

// Without the GIL.
template <class Function>
auto released(const Function& function) {
  const nb::gil_scoped_release release;
  return function();
}

// For long computations without the GIL: handles signals, so that Ctrl-C raises KeyboardInterrupt, and
// reports progress, both at most every 50 ms.
class Ticker {
 public:
  // on_progress: called with the number of finished items; None: not.
  explicit Ticker(nb::object on_progress = nb::none()) : on_progress_(std::move(on_progress)) {}
  // Throws nb::python_error: KeyboardInterrupt, or what a signal handler or on_progress raises.
  void operator()(int64_t done = 0);

 private:
  nb::object on_progress_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// A numpy array of the tensor's memory, which it keeps alive; read-only if the tensor is. Throws UsageError
// for a dtype that numpy lacks (bf16) and for another device.
nb::object to_numpy(const Tensor& tensor);

// The tensor that an argument is: a Tensor; an array of any framework, whose memory it shares; or a list of
// numbers, f32 or i32. Throws ShapeError for a dtype that tensors lack, such as float64, and for memory that
// is not contiguous. None: undefined.
Tensor tensor_of(nb::handle argument);

// An argument of an operation: a Variable, or what is a tensor, as a constant. Not numbers.
struct Operand {
  Variable variable;
};
// Whether an argument is one.
bool is_operand(nb::handle argument);
Variable variable_of(nb::handle argument);

// Sets an option from a Python value. Throws UsageError naming the option, what was expected and what was
// found.
template <class Value>
void assign(std::string_view name, nb::handle given, Value& value) {
  const auto fail = [&](std::string_view expected) {
    throw UsageError(concat(name, ": expected ", expected, ", found ", nb::repr(given).c_str()));
  };
  if constexpr (std::is_enum_v<Value>) {
    if (!nb::isinstance<nb::str>(given)) fail("a string");
    parse_field(name, nb::cast<std::string>(given), words(value), value);
  } else if constexpr (std::is_same_v<Value, bool>) {
    if (!nb::isinstance<nb::bool_>(given)) fail("True or False");
    value = nb::cast<bool>(given);
  } else if constexpr (std::is_arithmetic_v<Value>) {
    if (nb::isinstance<nb::bool_>(given) || !nb::try_cast(given, value))
      fail(std::is_integral_v<Value> ? "a whole number" : "a number");
  } else if (!nb::try_cast(given, value)) {
    fail("a string");
  }
}

// Sets the fields that `options` names, and removes them from it.
template <class Options>
bool take_fields(nb::dict& given, Options& options) {
  bool any = false;
  Options::visit_fields(options, [&](const OptionField& field, auto& value) {
    const nb::str name(field.name.data(), field.name.size());
    if (!given.contains(name)) return;
    assign(field.name, given[name], value);
    nb::del(given[name]);
    any = true;
  });
  return any;
}

// The names of the fields, for messages.
template <class Options>
void add_field_names(std::string& names) {
  Options::visit_fields(Options(), [&](const OptionField& field, const auto& /*value*/) {
    names += concat(names.empty() ? "" : ", ", field.name);
  });
}

// Throws UsageError naming the first option that is left.
void refuse_rest(const nb::dict& given, const std::string& known);

}  // namespace qkv::python

namespace nanobind::detail {

template <>
struct type_caster<qkv::python::Operand> {
  static constexpr auto Name = const_name("Variable | Tensor | ndarray");
  template <class T>
  using Cast = qkv::python::Operand;
  template <class T>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle source, uint32_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    argument = source;
    return qkv::python::is_operand(source);
  }
  explicit operator qkv::python::Operand() const { return {qkv::python::variable_of(argument)}; }
  handle argument;
};

}  // namespace nanobind::detail

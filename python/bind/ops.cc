// Variables, the tape, and the operations.

#include <nanobind/operators.h>
#include <nanobind/stl/function.h>

#include "python/bind/fields.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/tape.h"

namespace qkv::python {
namespace {

// `with qkv.Tape() as tape:`. The C++ tape exists within the block.
class TapeBlock {
 public:
  void enter() {
    if (tape_) throw UsageError("Tape: expected a tape that has not begun, found one that has");
    tape_ = std::make_unique<Tape>();
  }
  void exit() { tape_.reset(); }
  Tape& tape() {
    if (!tape_) throw UsageError("Tape: expected a call within its with block, found one outside");
    return *tape_;
  }

 private:
  std::unique_ptr<Tape> tape_;
};

nb::object grad_of(const Variable& variable) {
  const Tensor gradient = variable.grad();
  return gradient.defined() ? nb::cast(gradient) : nb::none();
}

// x OP y and y OP x, of values and numbers.
template <class Op>
void bind_operator(nb::class_<Variable>& cls, const std::string& name, const Op& op) {
  cls.def(
      concat("__", name, "__").c_str(), [op](const Variable& x, float y) { return op(x, y); },
      nb::is_operator());
  cls.def(
      concat("__", name, "__").c_str(),
      [op](const Variable& x, const Operand& y) { return released([&] { return op(x, y.variable); }); },
      nb::is_operator());
  cls.def(
      concat("__r", name, "__").c_str(), [op](const Variable& x, float y) { return op(y, x); },
      nb::is_operator());
  cls.def(
      concat("__r", name, "__").c_str(),
      [op](const Variable& x, const Operand& y) { return released([&] { return op(y.variable, x); }); },
      nb::is_operator());
}

void bind_variable(nb::module_& module) {
  nb::class_<Variable> cls(module, "Variable",
                           R"(A value that may have a gradient: a parameter, or the result of an operation.

Variable(value): a constant. Variable.parameter(value): a leaf with a gradient. Where a variable is expected, a Tensor,
a numpy array or one of another framework may be passed, as a constant.)");
  cls.def(
         "__init__", [](Variable* self, const nb::object& value) { new (self) Variable(variable_of(value)); },
         nb::arg("value"))
      .def_static(
          "parameter", [](const nb::object& value) { return Variable::parameter(tensor_of(value)); },
          nb::arg("value"))
      .def_prop_rw(
          "value", [](const Variable& x) { return x.value(); },
          [](Variable& x, const nb::object& value) { x.set_value(tensor_of(value)); },
          "The value; of a leaf, it may be replaced. After a change in place, call mark_modified().")
      .def("mark_modified", &Variable::mark_modified)
      .def_prop_ro("shape", [](const Variable& x) { return nb::cast(x.value()).attr("shape"); })
      .def_prop_rw(
          "requires_grad", &Variable::requires_grad,
          [](const Variable& x, bool wanted) { x.set_requires_grad(wanted); },
          "Whether it has a gradient; False freezes a leaf.")
      .def_prop_ro("grad", &grad_of, "The gradient, a Tensor; None if there is none.")
      .def("clear_grad", &Variable::clear_grad)
      .def("columns", &Variable::columns, nb::arg("begin"), nb::arg("count"),
           "Columns of a matrix; value and gradient are views.")
      .def("item", [](const Variable& x) { return x.value().item(); })
      .def(
          "numpy", [](const Variable& x) { return to_numpy(x.value()); },
          "The value as numpy array, which shares its memory.")
      .def("__array__",
           [](const Variable& x, const nb::args& given, const nb::kwargs& named) {
             return nb::cast(x.value()).attr("__array__")(*given, **named);
           })
      .def("__neg__", [](const Variable& x) { return -x; })
      .def(
          "__matmul__",
          [](const Variable& x, const Operand& y) { return released([&] { return matmul(x, y.variable); }); },
          nb::is_operator())
      .def(
          "__rmatmul__",
          [](const Variable& x, const Operand& y) { return released([&] { return matmul(y.variable, x); }); },
          nb::is_operator())
      .def("__repr__",
           [](const Variable& x) {
             return x.defined() ? concat("<qkv.Variable ", x.value(), ">") : "<qkv.Variable>";
           })
      .attr("__array_ufunc__") = nb::none();
  bind_operator(cls, "add", [](const auto& x, const auto& y) { return x + y; });
  bind_operator(cls, "sub", [](const auto& x, const auto& y) { return x - y; });
  bind_operator(cls, "mul", [](const auto& x, const auto& y) { return x * y; });
  bind_operator(cls, "truediv", [](const auto& x, const auto& y) { return x / y; });
}

void bind_tape(nb::module_& module) {
  nb::class_<TapeBlock>(module, "Tape",
                        R"(Records operations for the backward pass, within a with block, on its thread:

    with qkv.Tape() as tape:
        loss = ...
        tape.backward(loss)

Tapes do not nest.)")
      .def(nb::init<>())
      .def(
          "__enter__",
          [](TapeBlock& block) -> TapeBlock& {
            block.enter();
            return block;
          },
          nb::rv_policy::reference_internal)
      .def("__exit__", [](TapeBlock& block, const nb::args&) { block.exit(); })
      .def(
          "backward",
          [](TapeBlock& block, const Variable& output, const nb::object& gradient) {
            const Tensor given = tensor_of(gradient);
            released([&] {
              if (given.defined()) {
                block.tape().backward(output, given.clone());
              } else {
                block.tape().backward(output);
              }
            });
          },
          nb::arg("output"), nb::arg("gradient") = nb::none(),
          R"(Adds the gradients of all leaves, from a loss of one element, or from any output with its gradient.

Raises ShapeError for a loss of several elements, UsageError for one that this tape has not recorded and for values that
were changed since.)")
      .def(
          "first_non_finite", [](TapeBlock& block) { return block.tape().first_non_finite(); },
          "The first recorded value with a NaN or infinity, described; None without one.")
      .def_static(
          "records", [] { return Tape::records(); }, "Whether a tape records on this thread.");
}

// A differentiable function of one value.
template <Variable (*function)(const Variable&)>
void def(nb::module_& module, const char* name, const char* doc) {
  module.def(
      name, [](const Operand& x) { return released([&] { return function(x.variable); }); }, nb::arg("x"),
      doc);
}

using Reduce = Variable (*)(const Variable& x, int axis, KeepAxis keep);
void def_reduce(nb::module_& module, const char* name, Variable (*all)(const Variable&), Reduce axis_only,
                const char* doc) {
  module.def(
      name,
      [all, axis_only](const Operand& x, std::optional<int> axis, bool keep) {
        return released([&] {
          return axis ? axis_only(x.variable, *axis, keep ? KeepAxis::yes : KeepAxis::no) : all(x.variable);
        });
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keep_axis") = false, doc);
}

void bind_general(nb::module_& module) {
  def_reduce(module, "sum", sum, sum, "The sum over all elements, [1], or over an axis.");
  def_reduce(module, "mean", mean, mean, "The mean over all elements, [1], or over an axis.");
  def<softmax>(module, "softmax", "softmax over the innermost axis.");
  def<log_softmax>(module, "log_softmax", "log(softmax) over the innermost axis.");
  def<transpose>(module, "transpose", "Swaps the last two axes, a copy.");
  module.def(
      "matmul",
      [](const Operand& x, const Operand& y) {
        return released([&] { return matmul(x.variable, y.variable); });
      },
      nb::arg("x"), nb::arg("y"), "[m, k] [k, n] -> [m, n]; leading axes are a batch. Raises ShapeError.");
  module.def(
      "reshape",
      [](const Operand& x, const std::vector<int64_t>& shape) {
        return reshape(x.variable, Shape(std::span<const int64_t>(shape)));
      },
      nb::arg("x"), nb::arg("shape"), "The same elements in another shape, without a copy.");
  module.def(
      "slice",
      [](const Operand& x, int axis, int64_t begin, int64_t count) {
        return slice(x.variable, axis, begin, count);
      },
      nb::arg("x"), nb::arg("axis"), nb::arg("begin"), nb::arg("count"),
      "Elements begin to begin + count along an axis, a copy.");
  module.def(
      "concatenate",
      [](const std::vector<Operand>& parts, int axis) {
        std::vector<Variable> variables;
        for (const Operand& part : parts) variables.push_back(part.variable);
        return released([&] { return concatenate(variables, axis); });
      },
      nb::arg("parts"), nb::arg("axis"), "Concatenates along an axis; all other extents are equal.");
  module.def(
      "gather",
      [](const Operand& x, const Operand& rows) {
        return released([&] { return gather(x.variable, rows.variable.value()); });
      },
      nb::arg("x"), nb::arg("rows"),
      "x[rows[0]], x[rows[1]], ...: x [n, ...], rows i32 or i64 [m] -> [m, ...]. Raises DataError for a row "
      "out of range.");
  const auto pooling = [&](const char* name, Variable (*function)(const Variable&, const Offsets&),
                           const char* doc) {
    module.def(
        name,
        [function](const Operand& x, const Offsets& offsets) {
          return released([&] { return function(x.variable, offsets); });
        },
        nb::arg("x"), nb::arg("offsets"), doc);
  };
  pooling("segment_mean", segment_mean,
          "The mean of each sequence's rows: [tokens, features] -> [sequences, features].");
  pooling("segment_max", segment_max, "The maximum of each sequence's rows, per feature.");
  module.def(
      "cross_entropy",
      [](const Operand& logits, const Operand& labels, const nb::kwargs& given) {
        const auto options = options_from<ClassLossOptions>("cross_entropy", given);
        return released([&] { return cross_entropy(logits.variable, labels.variable.value(), options); });
      },
      nb::arg("logits"), nb::arg("labels"), nb::arg("options"),
      R"(The cross-entropy of softmax(logits), [..., classes], and labels i32 or i64 [...]: [1].

ignored_label: int = -100; class_weights: f32 [classes]; label_smoothing: float = 0; reduction: "mean", "sum" or "none", one
loss per item. Raises ShapeError, DataError for a label out of range.)");
  module.def(
      "mse",
      [](const Operand& x, const Operand& y, const std::string& reduction) {
        Reduction kind{};
        read_value("reduction", nb::cast(reduction), kind);
        return released([&] { return mse(x.variable, y.variable, kind); });
      },
      nb::arg("x"), nb::arg("y"), nb::arg("reduction") = "mean",
      "The squared error of each element; x and y have one shape.");
  module.def(
      "linear",
      [](const Operand& x, const Operand& weight, const std::optional<Operand>& bias) {
        return released([&] {
          return linear(x.variable,
                        LinearWeights({Weight(weight.variable)},
                                      bias ? std::vector{bias->variable} : std::vector<Variable>()));
        });
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias").none() = nb::none(),
      "x W^T + b: x [tokens, inputs], weight [outputs, inputs], bias [outputs].");
}

constexpr const char* kAttentionDoc = R"(softmax(Q K^T / sqrt(d_k)) V for each head: an AttentionResult.

query [batch, queries, heads, d_k], key [batch, keys, heads, d_k], value [batch, keys, heads, d_v] -> output [batch, queries,
heads, d_v]; without the batch axis, ragged sequences, whose boundaries are query_offsets and key_offsets. f32 or bf16.

causal: bool; alignment: "last_key" or "first_key"; window: int; keep: u8 [batch | 1, heads | 1, queries | 1, keys], nonzero:
may be attended to; bias: likewise, f32, added to the scores; alibi_slopes: f32 [heads]; relative_bias: f32 [heads, 2 n - 1];
sinks: f32 [heads]; scale: float, default 1 / sqrt(d_k); softcap: float; key_heads: int; return_weights, return_scores: bool;
return_top: int.

Raises ShapeError, and UsageError for options that contradict the inputs.)";

void bind_attentions(nb::module_& module) {
  nb::class_<AttentionResult>(module, "AttentionResult", "What an attention returns.")
      .def_ro("output", &AttentionResult::output)
      .def_ro("weights", &AttentionResult::weights,
              "With return_weights: of each sequence, [heads, queries, keys].")
      .def_ro("scores", &AttentionResult::scores, "With return_scores: likewise, before the softmax.")
      .def_ro("top_weights", &AttentionResult::top_weights,
              "With return_top: [heads, queries, return_top], descending.")
      .def_ro("top_keys", &AttentionResult::top_keys, "Their keys, i32.");
  module.def(
      "scaled_dot_product_attention",
      [](const Operand& query, const Operand& key, const Operand& value, const nb::kwargs& given) {
        const auto options = options_from<AttentionOptions>("attention", given);
        return released([&] {
          return scaled_dot_product_attention(query.variable, key.variable, value.variable, options);
        });
      },
      nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("options"), kAttentionDoc);
  module.def(
      "multihead_attention",
      [](const Operand& query, const Operand& key, const Operand& value, int64_t heads,
         const nb::kwargs& given) {
        const auto options = options_from<AttentionOptions>("attention", given);
        return released([&] {
          return multihead_attention(query.variable, key.variable, value.variable, heads, options);
        });
      },
      nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("heads"), nb::arg("options"),
      "scaled_dot_product_attention() on matrices [tokens, heads * d].");
}

}  // namespace

void bind_ops(nb::module_& module) {
  bind_variable(module);
  bind_tape(module);
  bind_general(module);
  bind_attentions(module);
}

}  // namespace qkv::python

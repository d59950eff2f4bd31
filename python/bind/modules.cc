// Modules: blocks of qkv::nn, and functions of any module, those of Python's classes too.

#include "python/bind/modules.h"

#include <nanobind/stl/function.h>

#include <functional>
#include <map>

#include "qkv/nn/decoder.h"
#include "qkv/nn/residual_branches.h"
#include "qkv/nn/weights_file.h"
#include "qkv/optim/optimizer.h"

namespace qkv::python {

std::vector<nn::NamedParameter> parameters_of(const nb::object& module) {
  std::vector<nn::NamedParameter> parameters;
  module.attr("visit")(
      nb::cpp_function([&parameters](const std::string& name, const nn::Parameter& parameter) {
        parameters.push_back({name, parameter});
      }));
  return parameters;
}

nn::AttentionMask mask_of(const nb::object& given) {
  nn::AttentionMask mask;
  if (!given.is_none()) read_value("mask", given, mask);
  return mask;
}

namespace {

// A list of parameters as a module.
struct Parameters {
  std::vector<nn::NamedParameter> list;
  void visit(const nn::ParameterVisitor& visitor) const {
    for (const nn::NamedParameter& one : list) visitor(one.name, one.parameter);
  }
};

template <class Function>
auto without_gil(const nb::object& module, const Function& function) {
  const Parameters parameters{parameters_of(module)};
  return released([&] { return function(parameters); });
}

void bind_parameters(nb::module_& module) {
  nb::class_<nn::Parameter>(module, "Parameter",
                            R"doc(A learned value, with a shape and an initial distribution.

Parameter(shape, kind="zeros", deviation=1): kind is "zeros", "ones", "normal" (of mean 0 and this standard deviation) or
"xavier_uniform". It has no values until initialise() or load().)doc")
      .def(
          "__init__",
          [](nn::Parameter* self, const std::vector<int64_t>& shape, const std::string& kind,
             float deviation) {
            nn::Initializer initializer{.kind = {}, .deviation = deviation};
            read_value("kind", nb::cast(kind), initializer.kind);
            new (self) nn::Parameter(Shape(std::span<const int64_t>(shape)), initializer);
          },
          nb::arg("shape"), nb::arg("kind") = "zeros", nb::arg("deviation") = 1.0f)
      .def_prop_ro(
          "variable", [](const nn::Parameter& parameter) { return parameter.variable; },
          "Its value in operations.")
      .def_prop_ro("shape",
                   [](const nn::Parameter& parameter) {
                     return nb::tuple(nb::cast(std::vector<int64_t>(parameter.shape.extents().begin(),
                                                                    parameter.shape.extents().end())));
                   })
      .def_prop_rw(
          "value", [](const nn::Parameter& parameter) { return parameter.variable.value(); },
          [](nn::Parameter& parameter, const nb::object& value) {
            const Tensor tensor = tensor_of(value);
            if (tensor.shape() != parameter.shape)
              throw ShapeError(
                  concat("Parameter: expected values ", parameter.shape, ", found ", tensor.shape()));
            parameter.set_value({tensor, {}});
          },
          "The values, a Tensor.")
      .def_prop_ro("grad", [](const nn::Parameter& parameter) {
        const Tensor gradient = parameter.variable.grad();
        return gradient.defined() ? nb::cast(gradient) : nb::none();
      });

  module.def(
      "parameters_of",
      [](const nb::object& of) {
        nb::list list;
        for (const nn::NamedParameter& one : parameters_of(of))
          list.append(nb::make_tuple(one.name, one.parameter));
        return list;
      },
      nb::arg("module"), "The parameters of a module, [(name, Parameter), ...].");
  module.def(
      "initialise",
      [](const nb::object& of, uint64_t seed) {
        without_gil(of, [&](const Parameters& all) { nn::initialise(all, seed); });
      },
      nb::arg("module"), nb::arg("seed"),
      "Draws the values of all parameters: a pure function of the seed and their names.");
  module.def(
      "scale_residual_branches",
      [](const nb::object& of, float factor) {
        without_gil(of, [&](const Parameters& all) { nn::scale_residual_branches(all.list, factor); });
      },
      nb::arg("module"), nb::arg("factor") = nn::kResidualStart,
      "Scales the matrices that end residual branches, after initialise().");
  module.def(
      "count_parameters",
      [](const nb::object& of) { return nn::count_parameters(Parameters{parameters_of(of)}); },
      nb::arg("module"));
  module.def(
      "set_requires_grad",
      [](const nb::object& of, bool wanted) { nn::set_requires_grad(Parameters{parameters_of(of)}, wanted); },
      nb::arg("module"), nb::arg("wanted"), "Freezes (False) or unfreezes the parameters of a module.");
  module.def(
      "save",
      [](const nb::object& of, const std::filesystem::path& file) {
        without_gil(of, [&](const Parameters& all) { nn::save(all, file); });
      },
      nb::arg("module"), nb::arg("file"),
      "Writes all parameters to a safetensors file. Raises UsageError for one without values, IoError.");
  module.def(
      "load",
      [](const nb::object& of, const std::filesystem::path& file) {
        without_gil(of, [&](const Parameters& all) { nn::load(all, file); });
      },
      nb::arg("module"), nb::arg("file"),
      "Reads all parameters from a safetensors file. Raises IoError, and DataError if names or shapes "
      "differ.");
}

void bind_context(nb::module_& module) {
  nb::class_<nn::ForwardContext>(module, "ForwardContext", R"(The context of one forward run.

training: enables dropout. seed, step: of its random numbers. recompute: less memory, more time, the same bits. observer:
called with the name of each attention and its weights, a Tensor [heads, queries, keys] for each sequence.)")
      .def(
          "__init__",
          [](nn::ForwardContext* self, bool training, uint64_t seed, uint32_t step, bool recompute,
             const nb::object& observer) {
            nn::AttentionObserver observe;
            if (!observer.is_none()) observe = nb::cast<nn::AttentionObserver>(observer);
            new (self) nn::ForwardContext{.training = training,
                                          .seed = seed,
                                          .step = step,
                                          .recompute = recompute,
                                          .observer = std::move(observe)};
          },
          nb::kw_only(), nb::arg("training") = false, nb::arg("seed") = 0, nb::arg("step") = 0,
          nb::arg("recompute") = false, nb::arg("observer") = nb::none())
      .def_rw("training", &nn::ForwardContext::training)
      .def_rw("seed", &nn::ForwardContext::seed)
      .def_rw("step", &nn::ForwardContext::step)
      .def_rw("recompute", &nn::ForwardContext::recompute);
}

template <class Options, class Module>
void def_init(nb::class_<Module>& cls, const char* name) {
  cls.def("__init__", [name](Module* self, const nb::args& positional, const nb::kwargs& given) {
    new (self) Module(options_from<Options>(name, positional, given));
  });
  def_visit(cls);
}

void bind_blocks(nb::module_& module) {
  nb::class_<nn::Linear> linear(
      module, "Linear", "y = x W^T + b: [tokens, inputs] -> [tokens, outputs]. Options: LinearOptions.");
  def_init<nn::LinearOptions>(linear, "Linear");
  linear.def(
      "__call__",
      [](const nn::Linear& self, const Operand& x, nn::ForwardContext* context) {
        return released([&] { return context ? self(x.variable, *context) : self(x.variable); });
      },
      nb::arg("x"), nb::arg("context").none() = nb::none());
  linear.def_prop_ro("weight", [](const nn::Linear& self) { return self.weight(); });
  linear.def_prop_ro("bias", [](const nn::Linear& self) { return self.bias(); });

  nb::class_<nn::Norm> norm(module, "Norm",
                            "Layer norm or RMS norm of each row: [tokens, features]. Options: NormOptions.");
  def_init<nn::NormOptions>(norm, "Norm");
  norm.def(
      "__call__",
      [](const nn::Norm& self, const Operand& x) { return released([&] { return self(x.variable); }); },
      nb::arg("x"));

  nb::class_<nn::DenseFeedForward> feed_forward(
      module, "FeedForward", "W_2 activation(W_1 x): [tokens, d_model]. Options: DenseFeedForwardOptions.");
  def_init<nn::DenseFeedForwardOptions>(feed_forward, "FeedForward");
  feed_forward.def(
      "__call__",
      [](const nn::DenseFeedForward& self, const Operand& x, nn::ForwardContext* context) {
        return with_context(context, [&](nn::ForwardContext& own) { return self(x.variable, own); });
      },
      nb::arg("x"), nb::arg("context").none() = nb::none());

  nb::class_<nn::MultiheadAttention> attention(module, "MultiheadAttention",
                                               "Multi-head attention. Options: MultiheadAttentionOptions.");
  def_init<nn::MultiheadAttentionOptions>(attention, "MultiheadAttention");
  attention
      .def(
          "self",
          [](const nn::MultiheadAttention& self, const Operand& x, const Offsets& offsets,
             const nb::object& mask, nn::ForwardContext* context) {
            const nn::AttentionMask allowed = mask_of(mask);
            return with_context(context, [&](nn::ForwardContext& own) {
              return self.self(x.variable, offsets, allowed, own);
            });
          },
          nb::arg("x"), nb::arg("offsets"), nb::arg("mask") = nb::none(),
          nb::arg("context").none() = nb::none(),
          "Self-attention: x [tokens, d_model] -> [tokens, d_model]. mask: AttentionMask.")
      .def(
          "cross",
          [](const nn::MultiheadAttention& self, const Operand& x, const Offsets& offsets,
             const Operand& keys, const Operand& values, const Offsets& memory_offsets,
             const nb::object& mask, nn::ForwardContext* context) {
            const nn::AttentionMask allowed = mask_of(mask);
            return with_context(context, [&](nn::ForwardContext& own) {
              return self.cross(x.variable, offsets, keys.variable, values.variable, memory_offsets, allowed,
                                own);
            });
          },
          nb::arg("x"), nb::arg("offsets"), nb::arg("keys"), nb::arg("values"), nb::arg("memory_offsets"),
          nb::arg("mask") = nb::none(), nb::arg("context").none() = nb::none(),
          "Cross attention: queries from x, keys and values from other rows [memory tokens, d_model].");
}

void bind_stacks(nb::module_& module) {
  nb::class_<nn::EncoderLayer> layer(
      module, "EncoderLayer",
      "Self-attention and feed-forward with residuals and norms. Options: LayerOptions.");
  def_init<nn::LayerOptions>(layer, "EncoderLayer");
  layer.def(
      "__call__",
      [](const nn::EncoderLayer& self, const Operand& x, const Offsets& offsets, const nb::object& mask,
         nn::ForwardContext* context) {
        const nn::AttentionMask allowed = mask_of(mask);
        return with_context(context,
                            [&](nn::ForwardContext& own) { return self(x.variable, offsets, allowed, own); });
      },
      nb::arg("x"), nb::arg("offsets"), nb::arg("mask") = nb::none(), nb::arg("context").none() = nb::none());

  nb::class_<nn::Encoder> encoder(module, "Encoder", "A stack of encoder layers. Options: StackOptions.");
  def_init<nn::StackOptions>(encoder, "Encoder");
  encoder.def(
      "__call__",
      [](const nn::Encoder& self, const Operand& x, const Offsets& offsets, nn::ForwardContext* context,
         const nb::object& mask) {
        const nn::AttentionMask allowed = mask_of(mask);
        return with_context(context,
                            [&](nn::ForwardContext& own) { return self(x.variable, offsets, own, allowed); });
      },
      nb::arg("x"), nb::arg("offsets"), nb::arg("context").none() = nb::none(), nb::arg("mask") = nb::none());

  nb::class_<nn::Memory>(module, "Memory", "The encoder's output, [tokens, d_model], and its sequences.")
      .def(
          "__init__",
          [](nn::Memory* self, const Operand& values, const Offsets& offsets) {
            new (self) nn::Memory{values.variable, offsets};
          },
          nb::arg("values"), nb::arg("offsets"))
      .def_ro("values", &nn::Memory::values)
      .def_ro("offsets", &nn::Memory::offsets);

  nb::class_<nn::DecoderLayer> decoder_layer(
      module, "DecoderLayer",
      "Causal self-attention, cross attention and feed-forward. Options: LayerOptions.");
  def_init<nn::LayerOptions>(decoder_layer, "DecoderLayer");
  decoder_layer.def(
      "__call__",
      [](const nn::DecoderLayer& self, const Operand& x, const Offsets& offsets, const nn::Memory& memory,
         nn::ForwardContext* context) {
        return with_context(context,
                            [&](nn::ForwardContext& own) { return self(x.variable, offsets, memory, own); });
      },
      nb::arg("x"), nb::arg("offsets"), nb::arg("memory"), nb::arg("context").none() = nb::none());

  nb::class_<nn::Decoder> decoder(module, "Decoder", "A stack of decoder layers. Options: StackOptions.");
  def_init<nn::StackOptions>(decoder, "Decoder");
  decoder.def(
      "__call__",
      [](const nn::Decoder& self, const Operand& x, const Offsets& offsets, const nn::Memory& memory,
         nn::ForwardContext* context) {
        return with_context(context,
                            [&](nn::ForwardContext& own) { return self(x.variable, offsets, memory, own); });
      },
      nb::arg("x"), nb::arg("offsets"), nb::arg("memory"), nb::arg("context").none() = nb::none());
}

// options(name, given): all fields of a struct, those given replaced.
template <class T>
void add(std::map<std::string, std::function<nb::object(const nb::dict&)>>& all, const char* name) {
  all[name] = [name](const nb::dict& given) { return written(options_from<T>(name, given)); };
}

void bind_options(nb::module_& module) {
  std::map<std::string, std::function<nb::object(const nb::dict&)>> all;
  add<nn::LinearOptions>(all, "LinearOptions");
  add<nn::NormOptions>(all, "NormOptions");
  add<nn::RotaryScaling>(all, "RotaryScaling");
  add<nn::PositionOptions>(all, "PositionOptions");
  add<nn::AttentionVariant>(all, "AttentionVariant");
  add<nn::MultiheadAttentionOptions>(all, "MultiheadAttentionOptions");
  add<nn::AttentionMask>(all, "AttentionMask");
  add<nn::DenseFeedForwardOptions>(all, "FeedForwardOptions");
  add<nn::ExpertOptions>(all, "ExpertOptions");
  add<nn::LayerOptions>(all, "LayerOptions");
  add<nn::StackOptions>(all, "StackOptions");
  add<nn::EmbeddingConfig>(all, "EmbeddingConfig");
  add<models::TextEncoderConfig>(all, "TextEncoderConfig");
  add<models::LanguageModelConfig>(all, "LanguageModelConfig");
  add<models::TransformerConfig>(all, "TransformerConfig");
  module.def(
      "options", [all](const std::string& name, const nb::dict& given) { return all.at(name)(given); },
      nb::arg("name"), nb::arg("given"));
  module.def(
      "preset", [](const std::string& name) { return written(models::preset(name)); }, nb::arg("name"));
}

}  // namespace

void bind_modules(nb::module_& module) {
  bind_parameters(module);
  bind_context(module);
  bind_blocks(module);
  bind_stacks(module);
  bind_options(module);
}

}  // namespace qkv::python

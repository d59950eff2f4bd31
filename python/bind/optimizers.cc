// Optimizers and learning rates.

#include <nanobind/stl/function.h>

#include "python/bind/modules.h"
#include "qkv/optim/adafactor.h"
#include "qkv/optim/adagrad.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/rmsprop.h"
#include "qkv/optim/sgd.h"

namespace qkv::python {
namespace {

// {"prefix": "encoder.", "contains": function of a name, "learning_rate_factor", "weight_decay", "frozen"}.
optim::ParameterGroup group_of(const nb::dict& given) {
  optim::ParameterGroup group;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "prefix") {
      group.contains = optim::named(nb::cast<std::string>(value));
    } else if (name == "contains") {
      const nb::object function = nb::borrow<nb::object>(value);
      group.contains = [function](const nn::NamedParameter& one) {
        return nb::cast<bool>(function(one.name));
      };
    } else if (name == "learning_rate_factor") {
      read_value(name, value, group.learning_rate_factor);
    } else if (name == "weight_decay") {
      read_value(name, value, group.weight_decay);
    } else if (name == "frozen") {
      read_value(name, value, group.frozen);
    } else {
      throw UsageError(
          concat("groups: expected prefix, contains, learning_rate_factor, weight_decay or frozen, found '",
                 name, "'"));
    }
  }
  return group;
}

// Takes those options out of `given`.
optim::OptimizerOptions common_options(nb::dict& given) {
  optim::OptimizerOptions options;
  const auto take = [&](const char* name, const auto& set) {
    if (!given.contains(name)) return;
    set(nb::object(given[name]));
    nb::del(given[name]);
  };
  take("clip_norm", [&](const nb::object& value) { read_value("clip_norm", value, options.clip_norm); });
  take("average_decay",
       [&](const nb::object& value) { read_value("average_decay", value, options.average_decay); });
  take("groups", [&](const nb::object& value) {
    for (const nb::handle group : value) options.groups.push_back(group_of(nb::cast<nb::dict>(group)));
  });
  return options;
}

template <class Optimizer, class Options>
void bind(nb::module_& module, const char* name, const char* doc) {
  nb::class_<Optimizer, optim::Optimizer>(module, name, doc)
      .def(
          "__init__",
          [name](Optimizer* self, const nb::object& of, const nb::kwargs& given) {
            nb::dict own(given);
            const optim::OptimizerOptions common = common_options(own);
            // The filters of groups are called while the optimizer is made, with the GIL.
            optim::OptimizerOptions bare = common;
            new (self) Optimizer(parameters_of(of), options_from<Options>(name, own), bare);
          },
          nb::arg("module"), nb::arg("options"));
}

constexpr const char* kCommon =
    "; and of all optimizers clip_norm, average_decay, groups: [{\"prefix\" or \"contains\", "
    "\"learning_rate_factor\", \"weight_decay\", \"frozen\"}, ...].";

}  // namespace

void bind_optimizers(nb::module_& module) {
  nb::class_<optim::Optimizer>(module, "Optimizer", "Updates the parameters of a module by their gradients.")
      .def(
          "step",
          [](optim::Optimizer& self, double rate) { return released([&] { return self.step(rate); }); },
          nb::arg("learning_rate"),
          "Updates all parameters and consumes their gradients; returns the norm of the gradients before "
          "clipping.\n\nRaises NumericError naming "
          "a parameter whose gradient is not finite.")
      .def("clear_gradients", &optim::Optimizer::clear_gradients)
      .def_prop_ro("steps", &optim::Optimizer::steps)
      .def(
          "average", [](const optim::Optimizer& self, size_t index) { return self.average(index); },
          nb::arg("index"), "The moving average of a parameter, with average_decay.");
  using optim::AdamOptions;
  const std::string adam = std::string("Options: beta1, beta2, epsilon, amsgrad, weight_decay") + kCommon;
  bind<optim::Adam, AdamOptions>(module, "Adam", adam.c_str());
  bind<optim::AdamW, AdamOptions>(module, "AdamW", adam.c_str());
  bind<optim::Sgd, optim::SgdOptions>(
      module, "Sgd", (std::string("Options: momentum, dampening, nesterov, weight_decay") + kCommon).c_str());
  bind<optim::Rmsprop, optim::RmspropOptions>(
      module, "Rmsprop",
      (std::string("Options: alpha, epsilon, momentum, centered, weight_decay") + kCommon).c_str());
  bind<optim::Adagrad, optim::AdagradOptions>(
      module, "Adagrad",
      (std::string("Options: lr_decay, initial_accumulator, epsilon, weight_decay") + kCommon).c_str());
  bind<optim::Adafactor, optim::AdafactorOptions>(
      module, "Adafactor",
      (std::string("Options: beta2_decay, epsilon1, epsilon2, clip_threshold, weight_decay") + kCommon)
          .c_str());
  module.def(
      "learning_rate",
      [](int64_t step, const nb::kwargs& given) {
        const auto options = options_from<train::ScheduleOptions>("schedule", given);
        options.validate();
        return train::learning_rate(options, step);
      },
      nb::arg("step"), nb::arg("options"),
      "The learning rate of a step, from 1. kind: \"paper\", \"inverse_sqrt\", \"cosine\", \"linear\" or "
      "\"constant\"; warmup_steps, learning_rate, "
      "factor, d_model, minimum, total_steps.");
}

}  // namespace qkv::python

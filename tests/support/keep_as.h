#pragma once
// A model's weights in another form.

#include <string>

#include "qkv/nn/parameter.h"
#include "qkv/ops/weight_form.h"

namespace qkv::testing {

// Rounds what may be kept in any form.
template <class Model>
void keep_as(WeightForm form, const Model& model) {
  model.visit([&](const std::string&, const nn::Parameter& parameter) {
    Variable variable = parameter.variable;
    if (!variable.allows_quantized()) return;
    const FormedWeight weight = in_form({variable.value(), variable.scales()}, form);
    variable.set_value(weight.value, weight.scales);
  });
}

}  // namespace qkv::testing

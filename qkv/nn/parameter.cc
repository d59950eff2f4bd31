#include "qkv/nn/parameter.h"

#include <cmath>
#include <numbers>

#include "qkv/base/philox.h"

namespace qkv::nn {
namespace {

// FNV-1a. Selects a random stream for each name.
uint64_t hash(const std::string& name) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

}  // namespace

Parameter Parameter::weight_matrix(const Shape& shape, Initializer initializer) {
  Parameter parameter(shape, initializer);
  parameter.scales = Variable(Tensor());
  parameter.low_rank = std::make_shared<LowRank>();
  return parameter;
}

Parameter Parameter::token_matrix(const Shape& shape, Initializer initializer) {
  Parameter parameter = weight_matrix(shape, initializer);
  parameter.of_tokens = true;
  return parameter;
}

void Parameter::set_value(const QuantizedTensor& value) const {
  if (value.dtype() != DType::f32 && !allows_quantized()) {
    throw UsageError(concat("parameter ", shape, ": expected f32 values, found ", name_of(value.dtype())));
  }
  if (value.defined() && value.shape() != shape)
    throw ShapeError(concat("parameter ", shape, ": expected values of its shape, found ", value.shape()));
  Variable values = variable;
  values.set_value(value.values);
  if (!allows_quantized()) return;
  Variable own_scales = scales;
  own_scales.set_value(value.scales);
}

void initialise(const std::string& name, const Parameter& parameter, uint64_t seed) {
  const MemoryScope memory(MemoryUse::weights);
  Tensor value = Tensor::zeros(parameter.shape);
  RandomStream random(seed, hash(name));
  switch (parameter.initializer.kind) {
    case Initializer::Kind::zeros:
      break;
    case Initializer::Kind::ones:
      value = Tensor::full(parameter.shape, 1.0f);
      break;
    case Initializer::Kind::normal:
      for (float& x : value.values()) {
        // Box-Muller transform (1958); 1 - u is in (0, 1].
        const float radius = std::sqrt(-2.0f * std::log(1.0f - random.uniform()));
        x = parameter.initializer.deviation * radius *
            std::cos(2.0f * std::numbers::pi_v<float> * random.uniform());
      }
      break;
    case Initializer::Kind::xavier_uniform: {
      const float bound = std::sqrt(6.0f / static_cast<float>(parameter.shape[0] + parameter.shape[-1]));
      for (float& x : value.values()) x = bound * (2.0f * random.uniform() - 1.0f);
      break;
    }
  }
  parameter.set_value({value});
}

void move_to(const Parameter& parameter, Device device) {
  if (parameter.low_rank && parameter.low_rank->defined()) {
    for (Variable* const matrix : {&parameter.low_rank->a, &parameter.low_rank->b}) {
      const Tensor& value = matrix->value();
      if (value.defined() && value.device() != device) matrix->set_value(from_host(to_host(value), device));
    }
  }
  const MemoryScope memory(MemoryUse::weights);
  const QuantizedTensor value = parameter.weight().value();
  if (value.values.device() == device) return;
  const auto there = [device](const Tensor& x) {
    return x.defined() ? from_host(to_host(x), device) : Tensor();
  };
  parameter.set_value({there(value.values), there(value.scales)});
}

}  // namespace qkv::nn

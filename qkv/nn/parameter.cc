#include "qkv/nn/parameter.h"

#include <cmath>
#include <numbers>

#include "qkv/base/philox.h"

namespace qkv::nn {
namespace {

// FNV-1a: a stream of random numbers for each name.
uint64_t hash(const std::string& name) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

}  // namespace

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
        // Box and Muller 1958; 1 - u is in (0, 1].
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
  Variable variable = parameter.variable;
  variable.set_value(value);
}

}  // namespace qkv::nn

#include "qkv/train/tasks/image/image_start.h"

#include <cmath>
#include <string>

#include "qkv/models/position_grid.h"

namespace qkv::train {
namespace {

// The special tokens keep their values.
void set_grid(const nn::Parameter& positions, const models::ImageEncoderConfig& config) {
  const int64_t side = config.patch, inputs = config.channels * side * side, d_model = positions.shape[1];
  // Glorot's and Bengio's matrices have the variance 2 / (inputs + outputs); that of sinusoids is 1/2.
  const double patches = 2 * static_cast<double>(inputs) / static_cast<double>(inputs + d_model);
  const auto factor = static_cast<float>(std::sqrt(2 * patches));
  const Tensor grid = models::sinusoidal_grid({config.height / side, config.width / side}, d_model);
  Tensor value = positions.variable.value().clone();
  const auto rows = value.values().subspan(static_cast<size_t>(config.own_tokens() * d_model));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = factor * grid.values()[i];
  positions.set_value({value});
}

}  // namespace

void initialise_vit(const models::ImageEncoder& model, uint64_t seed) {
  nn::initialise(model, seed);
  model.visit([&](const std::string& name, nn::Parameter parameter) {
    if (name == "classifier.weight") {
      parameter.initializer = {nn::Initializer::Kind::normal, 0.02f};
      nn::initialise(name, parameter, seed);
    } else if (name == "positions") {
      set_grid(parameter, model.config());
    }
  });
}

}  // namespace qkv::train

#include "qkv/pipelines/sentence_transformers/dense.h"

#include <array>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/tensor_file.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/hub/tensor_files.h"
#include "qkv/models/hub/weights.h"

namespace qkv::pipelines {
namespace {

using kernels::Activation;

struct DenseConfig {
  int64_t outputs = 0;
  bool bias = true;
  Activation activation = Activation::tanh;
};

// The last part of "torch.nn.modules.linear.Identity".
Activation activation_of(const models::ConfigReader& reader) {
  constexpr std::array<std::pair<std::string_view, Activation>, 5> kNames{{{"Identity", Activation::identity},
                                                                           {"Tanh", Activation::tanh},
                                                                           {"ReLU", Activation::relu},
                                                                           {"GELU", Activation::gelu_exact},
                                                                           {"SiLU", Activation::silu}}};
  const char* const field = "activation_function";
  const std::string path = reader.string(field, "torch.nn.modules.activation.Tanh"),
                    name = path.substr(path.rfind('.') + 1);
  for (const auto& [known, activation] : kNames) {
    if (known == name) return activation;
  }
  reader.reject(field, "Identity, Tanh, ReLU, GELU or SiLU of torch.nn");
}

DenseConfig config_of(const std::filesystem::path& folder, int64_t inputs) {
  const std::filesystem::path path = folder / "config.json";
  const models::ConfigReader reader(read_file(path), path.string());
  reader.require_integer("in_features", inputs);
  DenseConfig config{.outputs = reader.integer("out_features"),
                     .bias = reader.boolean("bias", true),
                     .activation = activation_of(reader)};
  if (config.outputs < 1) reader.reject("out_features", "at least 1");
  reader.require_boolean("use_residual", false);
  for (const char* end : {"module_input_name", "module_output_name"})
    reader.require_string(end, "sentence_embedding");
  reader.reject_unknown_fields();
  return config;
}

nn::Linear linear_of(const std::filesystem::path& folder, int64_t inputs, const DenseConfig& config) {
  nn::Linear linear({.inputs = inputs, .outputs = config.outputs, .bias = config.bias});
  const models::TensorFiles files(folder, MapFor::writing);
  const io::TensorFile& file = files.file_of("linear.weight", {config.outputs, inputs});
  models::load_parameter(file, {.name = "linear.weight", .shape = {config.outputs, inputs}}, {},
                         linear.weight(), {});
  if (config.bias) {
    models::load_parameter(file, {.name = "linear.bias", .shape = Shape{config.outputs}}, {}, linear.bias(),
                           {});
  }
  return linear;
}

}  // namespace

DenseLayer::DenseLayer(const std::filesystem::path& folder, int64_t inputs)
    : activation_(config_of(folder, inputs).activation),
      linear_(linear_of(folder, inputs, config_of(folder, inputs))) {}

std::vector<float> DenseLayer::operator()(const std::vector<float>& x) const {
  const Tensor y = linear_(Tensor::from(x, {1, std::ssize(x)}), activation_).value();
  return {y.values().begin(), y.values().end()};
}

}  // namespace qkv::pipelines

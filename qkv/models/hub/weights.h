#pragma once
// Between the parameters of a model and the tensors of a safetensors file.
//
// Weights lie there in the form in which they are kept: F32, BF16, or I8 [rows, cols] with an F32 [rows]
// beside it under the weight's name and "_scale". What is no weight of an affine map or a table is F32. F16
// is read, as f32.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/nn/parameter.h"

namespace qkv::models {

// A tensor that holds a parameter.
struct StoredTensor {
  std::string name;
  Shape shape;  // of the tensor
  // What of it is the parameter's numbers, in whatever dtype; none: all, as they lie.
  std::function<Tensor(const Tensor& whole)> taken_out = {};
};

// What config.json's "dtype" ("torch_dtype" in older ones) says of a folder's weights.
struct StoredForm {
  std::string config;  // the file, for messages
  // Nothing for float16 and where it says nothing.
  std::optional<WeightForm> form = {};
};

// Throws DataError naming `path` for a form that is not known.
StoredForm stored_form(const std::string& text, const std::string& path);

// Gives a parameter its numbers, weights in the form that is asked for or as they are stored. What needs no
// conversion stays in the mapped file. Throws DataError naming file, tensor, what was expected and what was
// found, also where weights are I8 and config.json does not say so, or the other way round.
void load_parameter(const io::SafetensorsFile& file, const StoredTensor& from, const StoredForm& says,
                    const nn::Parameter& parameter, const LoadOptions& options);

// The name of the tensor with the scales of an int8 weight.
std::string scales_name(const std::string& weight);

// As config.json spells it: "float32", "bfloat16", "int8".
const char* config_dtype(WeightForm form);

// The form of the weights that `visit` enumerates.
WeightForm form_of(const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::models

#pragma once
// Between the parameters of a model and the tensors of a safetensors file.
//
// Weight matrices and tables are stored as F32, BF16, or I8 [rows, cols] with F32 scales [rows] under the
// weight's name and "_scale"; all other parameters as F32. F16 is read as f32.

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
  // Extracts the parameter's values, in whatever dtype; none: they are the whole tensor.
  std::function<Tensor(const Tensor& whole)> taken_out = {};
};

// The "dtype" of config.json ("torch_dtype" in older ones): that of a folder's weights.
struct StoredDType {
  std::string config;  // the file, for messages
  // Nothing for float16 and where the field is missing.
  std::optional<DType> dtype = {};
};

// Throws DataError naming `path` for a dtype that is not known.
StoredDType stored_dtype(const std::string& text, const std::string& path);

// Gives a parameter its values, weights in the dtype of the options or as they are stored. Values that need
// no conversion stay in the mapped file. Throws DataError naming file, tensor, what was expected and what was
// found, also where weights are I8 and config.json does not say so, or the other way round.
void load_parameter(const io::SafetensorsFile& file, const StoredTensor& from, const StoredDType& says,
                    const nn::Parameter& parameter, const LoadOptions& options);

// The name of the tensor with the scales of an int8 weight.
std::string scales_name(const std::string& weight);

// As config.json spells it: "float32", "bfloat16", "int8".
const char* config_dtype(DType dtype);

// The dtype of the weight matrices that `visit` enumerates.
DType weight_dtype(const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::models

#pragma once
// Converts between a model's parameters and the tensors of a file.
//
// Weight matrices and tables are stored as F32, BF16, F16, blocks, or I8 [rows, cols] with F32 scales [rows]
// under the weight's name and "_scale"; all other parameters as F32. F16 is read as f32.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qkv/io/tensor_file.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/nn/parameter.h"

namespace qkv::models {

// A tensor that contains a parameter.
struct StoredTensor {
  std::string name;
  Shape shape;  // the tensor's shape
  // Extracts the parameter's values, in any dtype; empty: the whole tensor.
  std::function<Tensor(const Tensor& whole)> taken_out = {};
};

// "dtype" of config.json ("torch_dtype" in older ones): the dtype of the folder's weights.
struct StoredDType {
  std::string config;  // the file, for messages
  // Nothing for a missing field.
  std::optional<DType> dtype = {};
};

// Throws DataError naming `path` for an unknown dtype.
StoredDType stored_dtype(const std::string& text, const std::string& path);

// Loads a parameter, weights in the dtype of the options or as stored. Values that need no conversion stay in
// the mapped file. Throws DataError naming file, tensor, what was expected and what was found, also if the
// weights are I8 but config.json does not say so, or vice versa.
void load_parameter(const io::TensorFile& file, const StoredTensor& from, const StoredDType& says,
                    const nn::Parameter& parameter, const LoadOptions& options);

// The name of the tensor with the scales of an int8 weight.
std::string scales_name(const std::string& weight);

// Name in config.json: "float32", "bfloat16", "float16", "int8", "q8_0".
const char* config_dtype(DType dtype);

// The dtype of the weight matrices that `visit` enumerates: that of blocks if some are in blocks.
DType weight_dtype(const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::models

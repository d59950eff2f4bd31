#pragma once
// Between the parameters of a model and the tensors of a safetensors file.
//
// Weights lie there in the form in which they are kept: F32, BF16, or I8 [rows, cols] with an F32 [rows]
// beside it under the weight's name and "_scale". What is no weight of an affine map or a table is F32. F16
// is read, as f32.

#include <optional>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/nn/parameter.h"
#include "qkv/ops/weight_form.h"

namespace qkv::models {

// Gives a parameter the numbers that the file has under the name `stored`; weights in `form`, or as they are
// stored. What needs no conversion stays in the mapped file. Throws DataError naming file, tensor, what was
// expected and what was found.
void load_parameter(const io::SafetensorsFile& file, const std::string& stored,
                    const nn::Parameter& parameter, std::optional<WeightForm> form);

// Adds a parameter under its name, in the form that it has.
void append_parameter(std::vector<io::NamedTensor>& tensors, const std::string& name,
                      const nn::Parameter& parameter);

// What config.json's "dtype" ("torch_dtype" in older ones) says of the weights: nothing for float16 and where
// it says nothing. Throws DataError naming `path` for a form that is not known.
std::optional<WeightForm> weights_of_config(const std::string& text, const std::string& path);
// As config.json spells it: "float32", "bfloat16", "int8".
const char* config_dtype(WeightForm form);

}  // namespace qkv::models

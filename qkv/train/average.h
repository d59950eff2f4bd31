#pragma once
// Averages the weights of several checkpoints of a run (Vaswani et al. 2017, section 6.1).

#include <filesystem>
#include <vector>

#include "qkv/nn/named_parameters.h"

namespace qkv::train {

// For each parameter, the mean of the tensors with its name in the safetensors files, summed in double
// precision in the order of the files. Throws UsageError for no files, IoError, and DataError for a tensor
// that is missing or of another shape.
std::vector<Tensor> average_weights(const std::vector<std::filesystem::path>& files,
                                    const std::vector<nn::NamedParameter>& parameters);

}  // namespace qkv::train

#pragma once
// sentence-transformers' Dense module, which follows the pooling: y = f(x W^T + b).

#include <filesystem>
#include <vector>

#include "qkv/nn/linear.h"

namespace qkv::pipelines {

class DenseLayer {
 public:
  // Reads config.json and the weights of the module's folder. Throws DataError for other inputs than
  // `inputs`, and for an activation or a field that is not supported; IoError.
  DenseLayer(const std::filesystem::path& folder, int64_t inputs);

  int64_t outputs() const { return linear_.weight().variable.value().rows(); }
  std::vector<float> operator()(const std::vector<float>& x) const;

 private:
  kernels::Activation activation_;
  nn::Linear linear_;
};

}  // namespace qkv::pipelines

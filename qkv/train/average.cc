#include "qkv/train/average.h"

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"

namespace qkv::train {

std::vector<Tensor> average_weights(const std::vector<std::filesystem::path>& files,
                                    const std::vector<nn::NamedParameter>& parameters) {
  if (files.empty()) throw UsageError("average_weights: expected one file or more, found none");
  std::vector<io::SafetensorsFile> opened(files.begin(), files.end());
  std::vector<double> sum;
  std::vector<Tensor> means;
  for (const auto& [name, parameter] : parameters) {
    sum.assign(static_cast<size_t>(parameter.shape.numel()), 0.0);
    for (const io::SafetensorsFile& file : opened) {
      const Tensor values = file.tensor(name, parameter.shape);
      const float* x = values.data();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
    }
    Tensor mean = Tensor::empty(parameter.shape);
    float* y = mean.data();
    const double count = static_cast<double>(files.size());
    for (size_t i = 0; i < sum.size(); ++i) y[i] = static_cast<float>(sum[i] / count);
    means.push_back(mean);
  }
  return means;
}

}  // namespace qkv::train

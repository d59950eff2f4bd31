#include "qkv/models/hub/verify.h"

#include <utility>

#include "qkv/base/files.h"
#include "qkv/io/pytorch/pytorch_file.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/tensor_files.h"

namespace qkv::models {

std::vector<VerifiedFile> verify_weights(const std::filesystem::path& folder) {
  const TensorFiles files = with_io_errors([&] { return TensorFiles(folder, MapFor::reading); });
  std::vector<VerifiedFile> verified;
  for (const auto& file : files.files()) {
    const auto* const safetensors = dynamic_cast<const io::SafetensorsFile*>(file.get());
    io::ChecksumReport report;
    if (safetensors != nullptr) report = io::verify_checksums(*safetensors);
    const auto* const of_torch = dynamic_cast<const io::PytorchFile*>(file.get());
    if (of_torch != nullptr) report = of_torch->verify();
    if (safetensors == nullptr && of_torch == nullptr) report.unchecked = file->names();  // GGUF has none
    verified.push_back({file->path(), std::move(report)});
  }
  return verified;
}

}  // namespace qkv::models

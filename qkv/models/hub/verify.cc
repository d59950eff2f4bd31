#include "qkv/models/hub/verify.h"

#include "qkv/base/files.h"
#include "qkv/models/hub/tensor_files.h"

namespace qkv::models {

std::vector<VerifiedFile> verify_weights(const std::filesystem::path& folder) {
  const TensorFiles files = with_io_errors([&] { return TensorFiles(folder, MapFor::reading); });
  std::vector<VerifiedFile> verified;
  for (const io::SafetensorsFile& file : files.files())
    verified.push_back({file.path(), io::verify_checksums(file)});
  return verified;
}

}  // namespace qkv::models

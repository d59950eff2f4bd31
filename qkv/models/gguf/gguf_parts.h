#pragma once
// What the two sources of exported GGUF files, folders and GGUF files, have in common.

#include <filesystem>
#include <functional>
#include <vector>

#include "qkv/models/gguf/gguf_export.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/ops/quantize.h"

namespace qkv::models {

// A tensor of the file, and its numbers in any dtype.
struct GgufPart {
  io::GgufWriter::Tensor as;
  std::function<QuantizedTensor()> numbers;
  bool describes = false;  // belongs to the metadata, as f32
};

// Chooses the encodings of all parts, and writes the file. Before that, `check`, if any, sees the file as it
// will be read, without the data from the first part on that does not describe the model, and throws for what
// would be read as something else.
GgufReport write_gguf(const std::filesystem::path& to, io::GgufMetadata& metadata,
                      std::vector<GgufPart>& parts, const GgufExport& options,
                      const std::function<void(const GgufModel&)>& check = {});

// export_gguf() of a folder.
GgufReport gguf_from_folder(const std::filesystem::path& from, const std::filesystem::path& to,
                            const GgufExport& options);

}  // namespace qkv::models

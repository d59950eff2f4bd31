#pragma once
// Converts a model folder to another weight dtype.

#include <filesystem>
#include <functional>

#include "qkv/tensor/dtype.h"

namespace qkv::models {

// Writes the model in `from`, of any family, to the folder `to` with weights of `dtype` (f32, bf16 or i8),
// and copies the folder's other files: tokenizer, preprocessing, generation options, sentence-transformers
// modules. Python's transformers opens a bf16 folder; an int8 folder is in qkv's own format, as
// config.json records. The weights are written last, so a folder with weights is complete. Throws UsageError
// if `to` exists and is not empty, and the errors of loading and saving. `finish` is called with the complete
// folder, to add files (pipelines::write_proof); if it throws, the whole call fails.
void quantize_folder(const std::filesystem::path& from, const std::filesystem::path& to, DType dtype,
                     const std::function<void(const std::filesystem::path& folder)>& finish = {});

}  // namespace qkv::models

#pragma once
// A model folder with its weights in another dtype.

#include <filesystem>

#include "qkv/tensor/dtype.h"

namespace qkv::models {

// Writes the model in `from`, of any family, into the folder `to`, with weights of `dtype` (f32, bf16 or i8),
// and whatever else the folder has in files of its own: tokenizer, preprocessing, how to generate,
// sentence-transformers' modules. A bf16 folder is one that Python's transformers opens; an int8 folder is
// qkv's own, and its config.json says so. The weights come last: a folder that has them is whole. Throws
// UsageError where `to` exists and is not empty, else what loading and saving throw.
void quantize_folder(const std::filesystem::path& from, const std::filesystem::path& to, DType dtype);

}  // namespace qkv::models

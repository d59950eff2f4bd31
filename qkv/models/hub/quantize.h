#pragma once
// A model folder with its weights in another form.

#include <filesystem>

#include "qkv/ops/weight_form.h"

namespace qkv::models {

// Writes the model in `from`, of any family, into the folder `to`, with weights in `form`, and whatever else
// the folder has in files of its own: tokenizer, preprocessing, how to generate, sentence-transformers'
// modules. A bf16 folder is one that Python's transformers opens; an int8 folder is qkv's own, and its
// config.json says so. The weights come last: a folder that has them is whole. Throws UsageError where `to`
// exists and is not empty, else what loading and saving throw.
void quantize_folder(const std::filesystem::path& from, const std::filesystem::path& to, WeightForm form);

}  // namespace qkv::models

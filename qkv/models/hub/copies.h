#pragma once
// Copies of model folders: with weights of another dtype, or with an adapter merged into them.

#include <filesystem>
#include <functional>

#include "qkv/models/language_model.h"
#include "qkv/tensor/dtype.h"

namespace qkv::models {

// Writes the model in `from`, of any family, to the folder `to` with weights of `dtype` (f32, bf16, f16 or
// i8), and copies the folder's other files: tokenizer, preprocessing, generation options,
// sentence-transformers modules. Python's transformers opens a bf16 folder; an int8 folder is in qkv's own
// format, as config.json records. The weights are written last, so a folder with weights is complete. Throws
// UsageError if `to` exists and is not empty, and the errors of loading and saving. `finish` is called with
// the complete folder, to add files (pipelines::write_proof); if it throws, the whole call fails.
void quantize_folder(const std::filesystem::path& from, const std::filesystem::path& to, DType dtype,
                     const std::function<void(const std::filesystem::path& folder)>& finish = {});

// Likewise, for a language model whose f32 weights `change` gives other values or another dtype.
void change_language_model(const std::filesystem::path& from, const std::filesystem::path& to,
                           const std::function<void(const LanguageModel& model)>& change,
                           const std::function<void(const std::filesystem::path& folder)>& finish = {});

// Likewise, with f32 weights to which the updates of a LoRA adapter (adapter.h) are added, and with its head.
// Also throws the errors of AdapterFiles.
void merge_adapter(const std::filesystem::path& from, const std::filesystem::path& adapter,
                   const std::filesystem::path& to,
                   const std::function<void(const std::filesystem::path& folder)>& finish = {});

}  // namespace qkv::models

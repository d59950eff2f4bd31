#pragma once
// The text files of a model: a folder's, or what a GGUF file has in their place (GgufModel::text_file).

#include <filesystem>
#include <optional>
#include <string>

namespace qkv::models {

// The content of a file such as "config.json" (of a model of images, that of the language model within it:
// wrappers.h); nothing if there is none. Throws IoError, and for a GGUF file the errors of GgufModel.
std::optional<std::string> read_model_file(const std::filesystem::path& model, const std::string& name);

// For messages: the path of that file, or of the GGUF file.
std::string model_file_name(const std::filesystem::path& model, const std::string& name);

// Throws UsageError, naming the file, for a GGUF file: `what` needs the weights in full precision, and a
// folder to go with them.
void refuse_gguf(const std::filesystem::path& model, const std::string& what);

}  // namespace qkv::models

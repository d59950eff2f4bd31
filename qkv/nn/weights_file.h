#pragma once
// A module's weights in a safetensors file. (Folders as Hugging Face has them: qkv/models/hub/pretrained.h.)

#include <filesystem>

#include "qkv/nn/named_parameters.h"

namespace qkv::nn {

void save_weights(const std::filesystem::path& file, const std::vector<NamedParameter>& parameters);
void load_weights(const std::filesystem::path& file, const std::vector<NamedParameter>& parameters);

// Writes all parameters under the names that visit() gives them, atomically. Throws UsageError for a
// parameter without numbers (neither initialised nor loaded), IoError where the file cannot be written.
template <class Module>
void save(const Module& module, const std::filesystem::path& file) {
  save_weights(file, parameters_of(module));
}

// Gives each parameter the file's numbers, which stay mapped and are not copied where they are f32. Strict:
// the file has these names and shapes and no others. Throws IoError, and DataError that names the file and
// lists missing tensors, tensors that the module lacks, and shapes that differ; then nothing has changed.
template <class Module>
void load(const Module& module, const std::filesystem::path& file) {
  load_weights(file, parameters_of(module));
}

}  // namespace qkv::nn

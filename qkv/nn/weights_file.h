#pragma once
// Saves and loads a module's weights as a safetensors file. (Hugging Face folders:
// qkv/models/hub/pretrained.h.)

#include <filesystem>

#include "qkv/nn/named_parameters.h"

namespace qkv::nn {

void save_weights(const std::filesystem::path& file, const std::vector<NamedParameter>& parameters);
void load_weights(const std::filesystem::path& file, const std::vector<NamedParameter>& parameters);

// Writes all parameters atomically, under their visit() names. Throws UsageError for a parameter without
// values (neither initialised nor loaded), IoError if the file cannot be written.
template <class Module>
void save(const Module& module, const std::filesystem::path& file) {
  save_weights(file, parameters_of(module));
}

// Loads all parameters. f32 values stay mapped and are not copied. Strict: names and shapes must match
// exactly. Throws IoError, and DataError that names the file and lists missing tensors, surplus tensors and
// shape mismatches; the module is then unchanged.
template <class Module>
void load(const Module& module, const std::filesystem::path& file) {
  load_weights(file, parameters_of(module));
}

}  // namespace qkv::nn

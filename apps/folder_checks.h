#pragma once
// Checks of a model folder: qkv inspect --verify and qkv self-test DIR.

#include <string>

#include "qkv/tensor/device.h"

namespace qkv::apps {

// Prints for each weight file whether its tensors match the checksums in the file. Throws DataError naming
// those that do not.
void verify_folder_weights(const std::string& folder, bool json);

// Prints the results of checking the folder against its proof. Throws DataError naming the first difference.
void self_test_folder(const std::string& folder, Device device, bool json);

}  // namespace qkv::apps

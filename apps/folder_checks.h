#pragma once
// Checks of a model folder: qkv inspect --verify and qkv self-test DIR.

#include <string>

namespace qkv::apps {

// Prints, for each file of weights, whether its tensors match the checksums that it carries. Throws DataError
// naming those that do not.
void verify_folder_weights(const std::string& folder, bool json);

// Prints what the folder's proof says and still holds. Throws DataError naming what does not.
void self_test_folder(const std::string& folder, bool json);

}  // namespace qkv::apps

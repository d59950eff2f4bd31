#pragma once
// A folder with a folder of PNG and JPEG files for each class.

#include <filesystem>

#include "qkv/data/images/image_set.h"

namespace qkv::data {

// Reads the files in order of class and name, on all threads. Names that begin with a dot are ignored; other
// files that are not PNG or JPEG files by name are left out and counted. Throws DataError for no classes, a
// class without images, one that is not in options.classes, a file that cannot be decoded unless
// options.skip_unreadable is set, and images of another size than the first, naming both; IoError.
ImageSet read_class_folders(const std::filesystem::path& folder, const ImageSetOptions& options);

}  // namespace qkv::data

#pragma once
// The files of a folder that describe preprocessing.

#include <filesystem>
#include <string>
#include <utility>

namespace qkv::models {

// Whether the folder has a file that the next function reads: preprocessor_config.json, or
// processor_config.json (of processors of several kinds of input, since transformers 5).
bool has_processor(const std::filesystem::path& folder);

// The JSON object of the preprocessing, and its place for messages: the whole preprocessor_config.json, or
// else this field ("image_processor") of processor_config.json. Throws IoError, and DataError for a
// processor_config.json without it.
std::pair<std::string, std::string> processor_text(const std::filesystem::path& folder,
                                                   const std::string& field);

}  // namespace qkv::models

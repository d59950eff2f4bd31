#pragma once
// What readers share: files made of an input, and golden files as seeds.

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::fuzz {

// Reads an input in several ways, all of them. Throws the last error where none succeeds.
void read_in_each_way(std::initializer_list<std::function<void()>> ways);

// A folder of this process, made once for each name and removed at the end.
std::filesystem::path scratch_folder(const std::string& name);

void write(const std::filesystem::path& path, std::string_view bytes);

// An input that is several files: their contents with zero bytes between them. A file whose content is empty
// is not written, and removed where it is there.
void write_files(const std::filesystem::path& folder, std::initializer_list<const char*> names,
                 std::string_view bytes);
// The inverse: such an input from a folder's files.
std::string joined_files(const std::filesystem::path& folder, std::initializer_list<const char*> names);

// tests/<name>
std::filesystem::path golden(std::string_view name);
// The contents of all files below tests/<folder>, for each of the folders, whose names end like this; those
// longer than 64 KiB are left out.
std::vector<std::string> golden_files(std::initializer_list<std::string_view> folders,
                                      std::string_view ending);
// The folders below tests/<folder>, for each of the folders, that have a file of this name.
std::vector<std::filesystem::path> golden_folders(std::initializer_list<std::string_view> folders,
                                                  std::string_view file);

}  // namespace qkv::fuzz

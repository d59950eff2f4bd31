#pragma once
// Common to the readers: files from an input, and golden files as seeds.

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::fuzz {

// Reads an input in each of several ways. Throws the last error if none succeeds.
void read_in_each_way(std::initializer_list<std::function<void()>> ways);

// A temporary folder of this process, created once per name and removed at exit.
std::filesystem::path scratch_folder(const std::string& name);

void write(const std::filesystem::path& path, std::string_view bytes);

// Writes an input of several files, separated by zero bytes. A file without content is removed.
void write_files(const std::filesystem::path& folder, std::initializer_list<const char*> names,
                 std::string_view bytes);
// The inverse: builds such an input from a folder's files.
std::string joined_files(const std::filesystem::path& folder, std::initializer_list<const char*> names);

// tests/<name>
std::filesystem::path golden(std::string_view name);
// The contents of all files below each tests/<folder> with this suffix, up to 64 KiB long.
std::vector<std::string> golden_files(std::initializer_list<std::string_view> folders,
                                      std::string_view ending);
// The folders below each tests/<folder> that have a file of this name.
std::vector<std::filesystem::path> golden_folders(std::initializer_list<std::string_view> folders,
                                                  std::string_view file);

}  // namespace qkv::fuzz

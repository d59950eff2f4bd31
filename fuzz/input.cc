#include "fuzz/input.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>

#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kLongestSeed = uintmax_t{64} << 10;

// The parent folder of all readers' folders.
class Root {
 public:
  // In memory if possible: thousands of files per second would keep a disk busy.
  Root() {
    const fs::path memory = "/dev/shm";
    const bool writable = ::access(memory.c_str(), W_OK) == 0;
    path_ = (writable ? memory : fs::temp_directory_path()) / ("qkv-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path_);
  }
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<fs::path> files_below(std::initializer_list<std::string_view> folders) {
  std::vector<fs::path> paths;
  for (const std::string_view folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(golden(folder))) {
      if (entry.is_regular_file() && entry.file_size() <= kLongestSeed) paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

void read_in_each_way(std::initializer_list<std::function<void()>> ways) {
  std::exception_ptr refused;
  bool taken = false;
  for (const std::function<void()>& way : ways) {
    try {
      way();
      taken = true;
    } catch (const Error&) {
      refused = std::current_exception();
    }
  }
  if (!taken) std::rethrow_exception(refused);
}

fs::path scratch_folder(const std::string& name) {
  static const Root root;
  fs::path folder = root.path() / name;
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void write_files(const fs::path& folder, std::initializer_list<const char*> names, std::string_view bytes) {
  for (const char* const name : names) {
    const std::string_view content = bytes.substr(0, bytes.find('\0'));
    bytes.remove_prefix(std::min(content.size() + 1, bytes.size()));
    if (content.empty()) {
      fs::remove(folder / name);
    } else {
      write(folder / name, content);
    }
  }
}

std::string joined_files(const fs::path& folder, std::initializer_list<const char*> names) {
  std::string bytes;
  for (const char* const name : names) {
    if (name != *names.begin()) bytes.push_back('\0');
    if (fs::exists(folder / name)) bytes += read_file(folder / name);
  }
  return bytes;
}

fs::path golden(std::string_view name) { return fs::path(QKV_TEST_DATA) / name; }

std::vector<std::string> golden_files(std::initializer_list<std::string_view> folders,
                                      std::string_view ending) {
  std::vector<std::string> contents;
  for (const fs::path& path : files_below(folders)) {
    if (path.string().ends_with(ending)) contents.push_back(read_file(path));
  }
  return contents;
}

std::vector<fs::path> golden_folders(std::initializer_list<std::string_view> folders, std::string_view file) {
  std::vector<fs::path> found;
  for (const fs::path& path : files_below(folders)) {
    if (path.filename() == file) found.push_back(path.parent_path());
  }
  return found;
}

}  // namespace qkv::fuzz

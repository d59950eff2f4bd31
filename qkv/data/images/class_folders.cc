#include "qkv/data/images/class_folders.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/data/images/planes.h"

namespace qkv::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesAtOnce = 256;  // decoded images in memory

struct File {
  fs::path path;
  int32_t label;
};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<const char*, 3> kEndings{".png", ".jpg", ".jpeg"};
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) list += concat(i > 0 ? ", " : "", names[i]);
  return names.size() > kMost ? concat(list, ", and ", names.size() - kMost, " more") : list;
}

// The folders of classes. Files beside them are counted.
std::vector<fs::path> class_folders(const fs::path& folder, ImageSet& set) {
  std::vector<fs::path> folders;
  for (const fs::path& path : files_in(folder)) {
    if (is_hidden(path)) continue;
    if (is_folder(path)) {
      folders.push_back(path);
    } else {
      ++set.other_files;
    }
  }
  if (folders.empty()) {
    throw DataError(
        concat(folder.string(),
               ": expected a folder for each class, or IDX or CIFAR-binary files with their usual "
               "names, found ",
               set.other_files == 0 ? "an empty folder" : "other files"));
  }
  return folders;
}

std::vector<File> list_files(const fs::path& folder, const ImageSetOptions& options, ImageSet& set) {
  std::vector<File> files;
  set.classes = options.classes;
  for (const fs::path& of_class : class_folders(folder, set)) {
    const std::string name = of_class.filename().string();
    auto known = std::ranges::find(set.classes, name);
    if (known == set.classes.end()) {
      if (!options.classes.empty()) {
        throw DataError(concat(of_class.string(), ": expected one of the known classes (",
                               list_of(options.classes), "), found '", name, "'"));
      }
      known = set.classes.insert(set.classes.end(), name);
    }
    const auto label = static_cast<int32_t>(known - set.classes.begin());
    const size_t before = files.size();
    for (const fs::path& path : files_in(of_class)) {
      if (is_hidden(path)) continue;
      if (is_image(path) && !is_folder(path)) {
        files.push_back({path, label});
      } else {
        ++set.other_files;
      }
    }
    if (files.size() == before) {
      throw DataError(concat(of_class.string(), ": expected PNG or JPEG files, found none"));
    }
  }
  return files;
}

// A decoded file, or why it cannot be read.
struct Decoded {
  std::optional<Image> image;
  std::string error;
};

Decoded decode(const fs::path& path, const ImageSetOptions& options) {
  try {
    Image image = read_image(path);
    if (options.channels == 1) image = to_grey(image);
    return {options.fit ? options.fit(image) : std::move(image), {}};
  } catch (const DataError& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace

ImageSet read_class_folders(const fs::path& folder, const ImageSetOptions& options) {
  ImageSet set{.channels = options.channels == 1 ? 1 : 3};
  const std::vector<File> files = list_files(folder, options, set);
  const fs::path* first = nullptr;
  for (size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
    const auto some = std::span(files).subspan(begin, std::min(kFilesAtOnce, files.size() - begin));
    std::vector<Decoded> decoded(some.size());
    parallel_for(std::ssize(some), 1, [&](int64_t from, int64_t to) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i)
        decoded[i] = decode(some[i].path, options);
    });
    for (size_t i = 0; i < some.size(); ++i) {
      if (!decoded[i].image) {
        if (!options.skip_unreadable) throw DataError(decoded[i].error);
        ++set.unreadable;
        continue;
      }
      const Image& image = *decoded[i].image;
      if (first == nullptr) {
        first = &some[i].path;
        set.height = image.height;
        set.width = image.width;
      } else if (image.height != set.height || image.width != set.width) {
        throw DataError(concat(some[i].path.string(), ": expected ", set.height, " x ", set.width,
                               " pixels (height x width) as in ", first->string(), ", found ", image.height,
                               " x ", image.width, "; images of several sizes must be resized"));
      }
      append_planes(image, set);
      set.labels.push_back(some[i].label);
    }
  }
  if (first == nullptr) {
    throw DataError(concat(folder.string(), ": expected an image that can be read, found none in ",
                           files.size(), " files"));
  }
  return set;
}

}  // namespace qkv::data

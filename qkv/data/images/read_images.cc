// Finds the files of an ImageSource, and makes an ImageSet of them.

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/data/images/binary_file.h"
#include "qkv/data/images/cifar.h"
#include "qkv/data/images/class_folders.h"
#include "qkv/data/images/idx.h"
#include "qkv/data/images/image_set.h"
#include "qkv/data/images/planes.h"
#include "qkv/text/lines.h"

namespace qkv::data {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A file in a folder, under one of these names, maybe compressed; empty: there is none.
fs::path find_file(const fs::path& folder, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const char* ending : {"", ".gz"}) {
      fs::path path = folder / concat(name, ending);
      if (is_there(path)) return path;
    }
  }
  return {};
}

// The usual names of MNIST's files in a folder; nothing if it has other files.
ImageSource idx_files(const fs::path& folder, ImagePart part) {
  if (part == ImagePart::train) {
    return {find_file(folder, {"train-images-idx3-ubyte", "train-images.idx3-ubyte"}),
            find_file(folder, {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"})};
  }
  return {find_file(folder, {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"}),
          find_file(folder, {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"})};
}

// The usual names of CIFAR's files.
std::vector<fs::path> cifar_files(const fs::path& folder, ImagePart part) {
  std::vector<fs::path> files;
  const auto add = [&](std::string_view name) {
    if (fs::path path = find_file(folder, {name}); !path.empty()) files.push_back(std::move(path));
  };
  if (part == ImagePart::train) {
    for (int i = 1; i <= 5; ++i) add(concat("data_batch_", i, ".bin"));
    if (files.empty()) add("train.bin");
  } else {
    add("test_batch.bin");
    if (files.empty()) add("test.bin");
  }
  return files;
}

std::vector<std::string> numbers(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

// The names of CIFAR's classes: those of the file beside the images, or numbers.
std::vector<std::string> cifar_names(const fs::path& folder, int64_t count) {
  const fs::path file = find_file(folder, {count == 10 ? "batches.meta.txt" : "fine_label_names.txt"});
  if (file.empty()) return numbers(count);
  std::vector<std::string> names;
  text::LineReader reader(file);
  for (std::string line; reader.next(line);) {
    reader.require_utf8(line);
    if (!line.empty()) names.push_back(line);
  }
  if (std::ssize(names) != count) {
    throw DataError(
        concat(file.string(), ": expected the names of ", count, " classes, found ", names.size()));
  }
  return names;
}

// Labels by number. `names` are the classes if options has none.
void take_labels(const std::vector<uint8_t>& labels, const fs::path& file, const ImageSetOptions& options,
                 const std::vector<std::string>& names, ImageSet& set) {
  set.classes = options.classes.empty() ? names : options.classes;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= set.classes.size()) {
      throw DataError(concat(file.string(), ": image ", i + 1, ": expected a label of 0 to ",
                             set.classes.size() - 1, ", the known classes, found ", int{labels[i]}));
    }
    set.labels.push_back(labels[i]);
  }
}

ImageSet read_idx(const ImageSource& source, const ImageSetOptions& options) {
  if (source.images.empty() || source.labels.empty()) {
    throw UsageError(concat((source.images.empty() ? source.labels : source.images).string(),
                            ": expected an IDX file of images and one of labels, found only one"));
  }
  IdxImages images = read_idx_images(source.images);
  const std::vector<uint8_t> labels = read_idx_labels(source.labels);
  if (std::ssize(labels) != images.images) {
    throw DataError(concat(source.labels.string(), ": expected ", images.images, " labels, one for each of ",
                           source.images.string(), "'s images, found ", labels.size()));
  }
  ImageSet set{
      .channels = 1, .height = images.height, .width = images.width, .pixels = std::move(images.pixels)};
  take_labels(labels, source.labels, options, numbers(std::ranges::max(labels) + 1), set);
  return set;
}

ImageSet read_cifar(const std::vector<fs::path>& files, const ImageSetOptions& options) {
  CifarImages images = data::read_cifar(files);
  ImageSet set{.channels = 3, .height = kCifarSide, .width = kCifarSide, .pixels = std::move(images.pixels)};
  take_labels(images.labels, files.front(), options, cifar_names(files.front().parent_path(), images.classes),
              set);
  return set;
}

// A file without one of labels. An IDX file has another length, and an error of its own.
ImageSet read_cifar_file(const fs::path& path, const ImageSetOptions& options) {
  try {
    return read_cifar({path}, options);
  } catch (const DataError&) {
    const std::vector<uint8_t> bytes = BinaryFile(path).read_rest();
    constexpr std::array<uint8_t, 4> kIdxImages{0, 0, 8, 3};
    if (bytes.size() < kIdxImages.size() || !std::equal(kIdxImages.begin(), kIdxImages.end(), bytes.begin()))
      throw;
    throw UsageError(concat(path.string(), ": expected an IDX file of labels with it, found none"));
  }
}

// The images with other channels, or fitted.
ImageSet converted(ImageSet set, const fs::path& source, const ImageSetOptions& options) {
  const int64_t channels = options.channels == 0 ? set.channels : options.channels;
  if (channels == set.channels && !options.fit) return set;
  ImageSet result{.channels = channels, .height = set.height, .width = set.width};
  constexpr int64_t kAtOnce = 1024;  // converted images in memory beside the sets
  for (int64_t begin = 0; begin < set.size(); begin += kAtOnce) {
    std::vector<Image> images(static_cast<size_t>(std::min(kAtOnce, set.size() - begin)));
    parallel_for(std::ssize(images), 16, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        Image image = to_image(set, begin + i);
        if (channels == 1 && set.channels == 3) image = to_grey(image);
        images[static_cast<size_t>(i)] = options.fit ? options.fit(image) : std::move(image);
      }
    });
    if (begin == 0) {
      result.height = images.front().height;
      result.width = images.front().width;
    }
    for (const Image& image : images) {
      if (image.height != result.height || image.width != result.width)
        throw UsageError(concat(source.string(), ": expected images fitted to one size, found several"));
      append_planes(image, result);
    }
  }
  result.labels = std::move(set.labels);
  result.classes = std::move(set.classes);
  return result;
}

}  // namespace

ImageSet read_images(const ImageSource& source, ImagePart part, const ImageSetOptions& options) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3)
    throw UsageError(concat("channels: expected 0, 1 or 3, found ", options.channels));
  if (!source.labels.empty()) return converted(read_idx(source, options), source.images, options);
  if (!is_folder(source.images)) {
    if (!is_there(source.images))
      throw IoError(concat(source.images.string(), ": expected a file or a folder of images, found none"));
    return converted(read_cifar_file(source.images, options), source.images, options);
  }
  if (const ImageSource idx = idx_files(source.images, part); !idx.images.empty() || !idx.labels.empty())
    return converted(read_idx(idx, options), source.images, options);
  if (const std::vector<fs::path> cifar = cifar_files(source.images, part); !cifar.empty())
    return converted(read_cifar(cifar, options), source.images, options);
  return read_class_folders(source.images, options);
}

}  // namespace qkv::data

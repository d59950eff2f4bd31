#pragma once
// Images with classes, in memory, as training and evaluation read them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/data/image.h"

namespace qkv::data {

// Images of one size as bytes, one plane per channel. Memory: channels * height * width bytes per image.
struct ImageSet {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels = {};       // [images, channels, height, width]
  std::vector<int32_t> labels = {};       // of each image: an index into `classes`
  std::vector<std::string> classes = {};  // names
  int64_t unreadable = 0;                 // image files that were left out
  int64_t other_files = 0;                // files beside the images that are not PNG or JPEG files by name

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_bytes() const { return channels * height * width; }
  std::span<const uint8_t> image(int64_t index) const {
    return std::span(pixels).subspan(static_cast<size_t>(index * image_bytes()),
                                     static_cast<size_t>(image_bytes()));
  }
};

// The image as interleaved red, green and blue; the planes of a grey image are three times the same.
Image to_image(const ImageSet& set, int64_t index);

// A hash of pixels, labels and classes.
uint64_t fingerprint(const ImageSet& set);

// Mean and standard deviation of a channel's pixels, in levels (0 to 255). Sums are exact.
struct ChannelMoments {
  double mean = 0, deviation = 0;
};
std::vector<ChannelMoments> channel_moments(const ImageSet& set);

// Takes `count` images out of a set, chosen at random by `seed`: {the others, those}. Throws UsageError
// unless 0 < count < size().
std::pair<ImageSet, ImageSet> hold_out(ImageSet set, int64_t count, uint64_t seed);

struct ImageSetOptions {
  // 1 (grey, by Pillow's weights of red, green and blue) or 3; 0: as in the files (PNG and JPEG: 3).
  int64_t channels = 0;
  // Applied to each image, red, green and blue, before it is stored; empty: images are stored as they are and
  // must have one size. Called from several threads.
  std::function<Image(const Image&)> fit = {};
  // The classes whose indices the labels become; empty: those of the files.
  std::vector<std::string> classes = {};
  // Leave out image files that cannot be decoded, and count them; otherwise they are errors.
  bool skip_unreadable = false;
};

// Where images are stored.
struct ImageSource {
  // An IDX file, a CIFAR-binary file, a folder of such files with their usual names, or a folder with a
  // folder of PNG and JPEG files for each class.
  std::filesystem::path images;
  std::filesystem::path labels = {};  // of an IDX file, also an IDX file; otherwise empty
};

// Which files of a folder that has both.
enum class ImagePart {
  train,  // train-images-idx3-ubyte, data_batch_1.bin ..., train.bin
  test,   // t10k-images-idx3-ubyte, test_batch.bin, test.bin
};

// Reads the images of a source. IDX and CIFAR files may be compressed by gzip. Classes are numbers in IDX
// files, numbers or the names in batches.meta.txt (fine_label_names.txt) in CIFAR files, and the names of
// folders, sorted. Throws DataError naming the file, what was expected and what was found, for damaged files,
// counts that disagree, images of several sizes without `fit`, and labels outside options.classes; IoError;
// UsageError for options out of range.
ImageSet read_images(const ImageSource& source, ImagePart part, const ImageSetOptions& options = {});

}  // namespace qkv::data

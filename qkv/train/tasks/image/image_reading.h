#pragma once
// The training and validation images of a run.

#include <atomic>
#include <filesystem>
#include <optional>

#include "qkv/data/images/image_set.h"

namespace qkv::train {

struct ImageReadingOptions {
  int64_t resize = 0;    // height and width that images are resized to, in pixels; 0: images keep their size
  int64_t channels = 0;  // 1: grey, 3: red, green, blue; 0: as in the files
  // Training images that become the validation set, chosen at random, if there are no validation files. The
  // same ones whatever the seed of a run is, so that runs can be compared.
  int64_t hold_out = 0;
  bool skip_unreadable = false;       // leave out image files that cannot be decoded
  std::filesystem::path label_names;  // names of the classes of IDX and CIFAR files, one per line
};

struct ImageSets {
  data::ImageSet train;
  std::optional<data::ImageSet> valid;  // of the same size, channels and classes
};

// How images are read: with options.channels, and resized to options.resize.
data::ImageSetOptions set_options(const ImageReadingOptions& options);

// Reads the images of a run as `how` says; an empty `valid`: options.hold_out, or none. Files that are left
// out are counted in the log. Throws the errors of data::read_images(); DataError for images of one class,
// images that are not square, and validation images of another size; UsageError for too many images to hold
// out; Stopped.
ImageSets read_image_sets(const data::ImageSource& train, const data::ImageSource& valid,
                          const ImageReadingOptions& options, const data::ImageSetOptions& how,
                          const std::atomic<bool>* stop);

}  // namespace qkv::train

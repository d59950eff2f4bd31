#include "qkv/train/tasks/image/image_reading.h"

#include <algorithm>
#include <tuple>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/base/stop.h"
#include "qkv/data/resize.h"
#include "qkv/text/lines.h"

namespace qkv::train {
namespace {

constexpr uint64_t kHoldOutSeed = 1;

std::vector<std::string> names_in(const std::filesystem::path& file) {
  std::vector<std::string> names;
  text::LineReader reader(file);
  for (std::string line; reader.next(line);) {
    reader.require_utf8(line);
    if (line.empty() || std::ranges::find(names, line) != names.end()) {
      throw DataError(concat(file.string(), ":", reader.lines(),
                             ": expected the name of another class, found ",
                             line.empty() ? "an empty line" : concat("'", line, "' again")));
    }
    names.push_back(line);
  }
  return names;
}

void warn_of_files(const data::ImageSet& set, const std::filesystem::path& path) {
  if (set.unreadable > 0) {
    log_warning(concat(path.string(), ": ", set.unreadable, " of ", set.size() + set.unreadable,
                       " image files cannot be read and were left out"));
  }
  if (set.other_files > 0) {
    log_warning(concat(path.string(), ": ", counted(set.other_files, "files"),
                       " of other formats than PNG and JPEG left out"));
  }
}

// Classes without images are warned of; a single class is an error.
void require_classes(const data::ImageSet& set, const std::filesystem::path& path) {
  std::vector<int64_t> counts(set.classes.size());
  for (const int32_t label : set.labels) ++counts[static_cast<size_t>(label)];
  const auto present = std::ranges::count_if(counts, [](int64_t count) { return count > 0; });
  const auto largest = static_cast<size_t>(std::ranges::max_element(counts) - counts.begin());
  if (present < 2) {
    throw DataError(concat(path.string(), ": expected images of two or more classes, found ", set.size(),
                           " images of the class '", set.classes[largest], "' only"));
  }
  if (const auto missing = std::ssize(counts) - present; missing > 0) {
    const auto first = static_cast<size_t>(std::ranges::find(counts, 0) - counts.begin());
    log_warning(concat(path.string(), ": ", missing, " of ", counts.size(),
                       " classes have no training images; the first is '", set.classes[first], "'"));
  }
}

void require_size(const data::ImageSet& set, const std::filesystem::path& path, int64_t height, int64_t width,
                  const char* expected) {
  if (set.height == height && set.width == width) return;
  throw DataError(concat(path.string(), ": expected ", expected, ", ", height, " x ", width,
                         " pixels, or a size to resize images to (data.resize), found ", set.height, " x ",
                         set.width));
}

}  // namespace

data::ImageSetOptions set_options(const ImageReadingOptions& options) {
  data::ImageSetOptions result{.channels = options.channels, .skip_unreadable = options.skip_unreadable};
  if (options.resize > 0) {
    result.fit = [side = options.resize](const data::Image& image) {
      return data::resize(image, side, side, data::Resampling::bilinear);
    };
  }
  return result;
}

ImageSets read_image_sets(const data::ImageSource& train, const data::ImageSource& valid,
                          const ImageReadingOptions& options, const data::ImageSetOptions& how,
                          const std::atomic<bool>* stop) {
  data::ImageSetOptions own = how;
  if (!options.label_names.empty()) own.classes = names_in(options.label_names);
  ImageSets sets{.train = data::read_images(train, data::ImagePart::train, own), .valid = std::nullopt};
  throw_if_stopped(stop);
  warn_of_files(sets.train, train.images);
  require_classes(sets.train, train.images);
  const int64_t side = std::max(sets.train.height, sets.train.width);
  require_size(sets.train, train.images, side, side, "square images");
  if (!valid.images.empty()) {
    own.channels = sets.train.channels;
    own.classes = sets.train.classes;
    sets.valid = data::read_images(valid, data::ImagePart::test, own);
    throw_if_stopped(stop);
    warn_of_files(*sets.valid, valid.images);
    require_size(*sets.valid, valid.images, side, side, "the training images' size");
  } else if (options.hold_out > 0) {
    if (options.hold_out >= sets.train.size()) {
      throw UsageError(concat("data.hold_out: expected fewer than the ", sets.train.size(),
                              " training images, found ", options.hold_out));
    }
    std::tie(sets.train, sets.valid) = data::hold_out(std::move(sets.train), options.hold_out, kHoldOutSeed);
  }
  log_info(concat("training images: ", sets.train.size(), " of ", sets.train.height, " x ", sets.train.width,
                  ", ", sets.train.channels == 1 ? "grey" : "red, green and blue", ", ",
                  sets.train.classes.size(), " classes"));
  if (sets.valid) log_info(concat("validation images: ", sets.valid->size()));
  return sets;
}

}  // namespace qkv::train

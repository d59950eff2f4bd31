#pragma once
// From pictures to what an image encoder reads: the preprocessing that a folder's preprocessor_config.json
// describes.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "qkv/data/image.h"
#include "qkv/data/resize.h"
#include "qkv/tensor/tensor.h"

namespace qkv::models {

struct ImageSize {
  int64_t height = 0, width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// Resize, crop, scale, normalise, in this order.
struct ImageProcessorConfig {
  std::optional<ImageSize> resize = {};       // to this size, whatever the picture's shape
  std::optional<int64_t> shortest_edge = {};  // or so that the shorter side has this length, shape kept
  data::Resampling resampling = data::Resampling::bilinear;
  std::optional<ImageSize> crop = {};          // the middle of it
  double scale = 1.0 / 255;                    // multiplies each pixel's 0 to 255
  std::array<float, 3> mean = {0, 0, 0};       // subtracted from red, green and blue
  std::array<float, 3> deviation = {1, 1, 1};  // divides them

  // The size that every picture ends in, where there is one.
  std::optional<ImageSize> size() const { return crop ? crop : resize; }
  // The same for another size: pictures are shown as before, with more or fewer pixels. Throws UsageError
  // where size() has none.
  ImageProcessorConfig sized(ImageSize wanted) const;
  // Throws UsageError naming the field.
  void validate() const;
};

// Reads the words of ViTImageProcessor and DeiTImageProcessor. Throws DataError naming the file and the
// field for one that is unknown or asks for something that is not here.
ImageProcessorConfig read_image_processor(const std::string& json, const std::string& path);

// The folder's preprocessor_config.json. Throws IoError too.
ImageProcessorConfig load_image_processor(const std::filesystem::path& folder);

class ImageProcessor {
 public:
  explicit ImageProcessor(const ImageProcessorConfig& config);

  const ImageProcessorConfig& config() const { return config_; }

  // What the model gets to see of a picture: resized and cropped.
  data::Image resize_and_crop(const data::Image& image) const;
  // Such an image as numbers, [3, height, width], written to `to`.
  void normalize(const data::Image& seen, float* to) const;
  // Both for pictures that end in one size: f32 [images, 3, height, width]. Throws UsageError where they do
  // not.
  Tensor operator()(std::span<const data::Image> images) const;

 private:
  ImageProcessorConfig config_;
  std::array<std::array<float, 256>, 3> values_;  // of each channel's levels
};

}  // namespace qkv::models

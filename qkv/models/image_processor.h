#pragma once
// Image preprocessing, as described by a folder's preprocessor_config.json.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "qkv/data/image.h"
#include "qkv/tensor/tensor.h"

namespace qkv::models {

struct ImageSize {
  int64_t height = 0, width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// A part of an image, in shares of the image's sides. Beyond 0 and 1 is padding.
struct ImageRegion {
  double top = 0, left = 0, height = 1, width = 1;
};

// Convert to the model's channels, resize, crop, scale, normalise, in this order.
struct ImageProcessorConfig {
  // Of the model, not in the file: 3 (red, green, blue), or 1 (grey, data::to_grey()), which uses the first
  // mean and deviation.
  int64_t channels = 3;
  std::optional<ImageSize> resize = {};  // to this size, ignoring the aspect ratio
  // Or to this length of the shorter side, keeping the aspect ratio.
  std::optional<int64_t> shortest_edge = {};
  data::Resampling resampling = data::Resampling::bilinear;
  std::optional<ImageSize> crop = {};          // centre crop
  double scale = 1.0 / 255;                    // factor of pixel values 0 to 255
  std::array<float, 3> mean = {0, 0, 0};       // subtracted from red, green and blue
  std::array<float, 3> deviation = {1, 1, 1};  // divides them

  // The resulting size, if it does not depend on the image.
  std::optional<ImageSize> size() const { return crop ? crop : resize; }
  // The same preprocessing to another size: images are framed as before, with more or fewer pixels. Throws
  // UsageError if size() is nothing.
  ImageProcessorConfig sized(ImageSize wanted) const;
  // Throws UsageError naming the field.
  void validate() const;
};

// Reads the fields of ViTImageProcessor, DeiTImageProcessor, CLIPImageProcessor and SiglipImageProcessor.
// Throws DataError naming the file and the field that is unknown or unsupported.
ImageProcessorConfig read_image_processor(const std::string& json, const std::string& path);

// A preprocessor_config.json of a ViTImageProcessor that reads back as this configuration, and that
// transformers applies to images of its channels (convert("L") images of one channel). Throws UsageError for
// a configuration without `resize`, or with a crop.
std::string image_processor_json(const ImageProcessorConfig& config);

// Whether the folder has a file that the next function reads: preprocessor_config.json, or
// processor_config.json (of processors of images and texts, since transformers 5).
bool has_image_processor(const std::filesystem::path& folder);

// The JSON object of that preprocessing, and its place for messages. Throws IoError, and DataError for a
// processor_config.json without one.
std::pair<std::string, std::string> image_processor_text(const std::filesystem::path& folder);

// Reads the folder's preprocessing. Also throws IoError.
ImageProcessorConfig load_image_processor(const std::filesystem::path& folder);

class ImageProcessor {
 public:
  explicit ImageProcessor(const ImageProcessorConfig& config);

  const ImageProcessorConfig& config() const { return config_; }

  // The input value of each pixel value, 0 to 255, of a channel.
  const std::array<float, 256>& values(int64_t channel) const {
    return values_[static_cast<size_t>(channel)];
  }

  // The geometric part: resizes and crops. Images of one channel become grey first.
  data::Image resize_and_crop(const data::Image& image) const;
  // What remains of an image of this size.
  ImageRegion region(ImageSize image) const;
  // The numeric part: converts such an image to [channels, height, width], written to `to`. Both throw
  // UsageError for an image without its pixels.
  void normalize(const data::Image& seen, float* to) const;
  // Both, for images that result in one size: f32 [images, channels, height, width]. Throws UsageError if
  // they do not, and for no images.
  Tensor operator()(std::span<const data::Image> images) const;

 private:
  // The size of an image after resizing, before the crop.
  ImageSize resized(ImageSize image) const;

  ImageProcessorConfig config_;
  std::array<std::array<float, 256>, 3> values_;  // by channel and pixel value
};

}  // namespace qkv::models

#include "qkv/models/image_processor.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/data/image_limits.h"
#include "qkv/data/resize.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/parts/processor_text.h"

namespace qkv::models {
namespace {

constexpr int64_t kLongestSide = 16384;

// Defaults of missing fields, which differ between transformers' classes.
struct Defaults {
  std::string_view name;  // prefix of the class name
  int64_t size;
  bool crops;
  data::Resampling resampling;
  bool square = true;  // a size of one number is that of both sides; otherwise of the shorter one
  std::array<double, 3> mean = {0.5, 0.5, 0.5}, deviation = mean;
};

constexpr std::array<Defaults, 4> kClasses{{{"ViT", 224, false, data::Resampling::bilinear},
                                            {"DeiT", 256, true, data::Resampling::bicubic},
                                            {.name = "CLIP",
                                             .size = 224,
                                             .crops = true,
                                             .resampling = data::Resampling::bicubic,
                                             .square = false,
                                             .mean = {0.48145466, 0.4578275, 0.40821073},
                                             .deviation = {0.26862954, 0.26130258, 0.27577711}},
                                            {"Siglip", 224, false, data::Resampling::bicubic}}};
constexpr int64_t kDefaultCrop = 224;

const Defaults& defaults_of(const ConfigReader& reader) {
  const char* key = reader.has("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
  const std::string type = reader.string(key, "ViTImageProcessor");
  for (const Defaults& one : kClasses) {
    for (const char* ending :
         {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"}) {
      if (type == concat(one.name, ending)) return one;
    }
  }
  std::string known;
  for (const Defaults& one : kClasses)
    known += concat(known.empty() ? "" : " or ", one.name, "ImageProcessor");
  reader.reject(key, known);
}

// Reads a field such as 224, [224, 224] or {"height": 224, "width": 224}.
ImageSize size_of(const ConfigReader& reader, const std::string& key, int64_t otherwise) {
  if (reader.is_object(key)) {
    const ConfigReader size = reader.object(key);
    const ImageSize found{size.integer("height"), size.integer("width")};
    size.reject_unknown_fields();
    return found;
  }
  std::vector<double> sides = reader.numbers(key);
  if (sides.empty()) return {otherwise, otherwise};
  if (sides.size() == 1) sides.push_back(sides.front());
  const auto is_side = [](double side) {
    return side == std::floor(side) && side >= 1 && side <= kLongestSide;
  };
  if (sides.size() != 2 || !std::ranges::all_of(sides, is_side)) {
    reader.reject(key, concat("a height and a width of 1 to ", kLongestSide));
  }
  return {static_cast<int64_t>(sides[0]), static_cast<int64_t>(sides[1])};
}

void read_resizing(const ConfigReader& reader, const Defaults& defaults, ImageProcessorConfig& config) {
  const int64_t resample = reader.integer("resample", static_cast<int64_t>(defaults.resampling));
  if (resample < 0 || resample > 5) reader.reject("resample", "one of Pillow's filters, 0 to 5");
  config.resampling = static_cast<data::Resampling>(resample);
  if (reader.is_object("size") && reader.object("size").has("shortest_edge")) {
    const ConfigReader size = reader.object("size");
    config.shortest_edge = size.integer("shortest_edge");
    size.reject_unknown_fields();
  } else if (!defaults.square && !reader.is_object("size") && reader.numbers("size").size() < 2) {
    config.shortest_edge = reader.integer("size", defaults.size);
  } else {
    config.resize = size_of(reader, "size", defaults.size);
  }
}

std::array<float, 3> channels_of(const ConfigReader& reader, const std::string& key,
                                 const std::array<double, 3>& otherwise) {
  std::vector<double> values = reader.numbers(key);
  if (values.empty()) values = {otherwise.begin(), otherwise.end()};
  if (values.size() == 1) values.resize(3, values.front());
  if (values.size() != 3) reader.reject(key, "a number for each of 3 channels");
  return {static_cast<float>(values[0]), static_cast<float>(values[1]), static_cast<float>(values[2])};
}

int64_t scaled(int64_t length, int64_t to, int64_t from) { return (length * to + from / 2) / from; }

}  // namespace

ImageProcessorConfig read_image_processor(const std::string& json, const std::string& path) {
  const ConfigReader reader(json, path);
  const Defaults& defaults = defaults_of(reader);
  ImageProcessorConfig config{.crop = size_of(reader, "crop_size", kDefaultCrop),
                              .scale = reader.number("rescale_factor", 1.0 / 255),
                              .mean = channels_of(reader, "image_mean", defaults.mean),
                              .deviation = channels_of(reader, "image_std", defaults.deviation)};
  read_resizing(reader, defaults, config);
  // Reads everything and then drops disabled steps, which files describe too.
  const ImageProcessorConfig nothing{.scale = 1};
  if (!reader.boolean("do_resize", true)) {
    config.resize = nothing.resize;
    config.shortest_edge = nothing.shortest_edge;
  }
  if (!reader.boolean("do_center_crop", defaults.crops)) config.crop = nothing.crop;
  if (!reader.boolean("do_rescale", true)) config.scale = nothing.scale;
  if (!reader.boolean("do_normalize", true)) {
    config.mean = nothing.mean;
    config.deviation = nothing.deviation;
  }
  reader.require_boolean("do_pad", false);
  reader.require_string("data_format", "channels_first");
  // Affects how transformers runs, not the result. Images are always converted to RGB.
  reader.ignore(
      "image_processor_type feature_extractor_type processor_class do_convert_rgb input_data_format "
      "return_tensors device disable_grouping default_to_square _valid_processor_keys use_fast pad_size "
      "_valid_kwargs_names");
  reader.reject_unknown_model_fields();
  try {
    config.validate();
  } catch (const UsageError& error) {
    throw DataError(concat(path, ": ", error.what()));
  }
  return config;
}

std::string image_processor_json(const ImageProcessorConfig& config) {
  config.validate();
  if (!config.resize || config.crop)
    throw UsageError("preprocessing: expected a size to resize images to and no crop, found another");
  nlohmann::ordered_json mean, deviation;
  for (size_t c = 0; c < static_cast<size_t>(config.channels); ++c) {
    mean.push_back(decimal(config.mean[c]));
    deviation.push_back(decimal(config.deviation[c]));
  }
  const nlohmann::ordered_json json{
      {"image_processor_type", "ViTImageProcessor"},
      {"do_resize", true},
      {"size", {{"height", config.resize->height}, {"width", config.resize->width}}},
      {"resample", static_cast<int>(config.resampling)},
      {"do_rescale", true},
      {"rescale_factor", config.scale},
      {"do_normalize", true},
      {"image_mean", mean},
      {"image_std", deviation}};
  return json.dump(2) + "\n";
}

bool has_image_processor(const std::filesystem::path& folder) { return has_processor(folder); }

std::pair<std::string, std::string> image_processor_text(const std::filesystem::path& folder) {
  return processor_text(folder, "image_processor");
}

ImageProcessorConfig load_image_processor(const std::filesystem::path& folder) {
  const auto [text, path] = image_processor_text(folder);
  return read_image_processor(text, path);
}

void ImageProcessorConfig::validate() const {
  if (channels != 1 && channels != 3) throw UsageError(concat("channels: expected 1 or 3, found ", channels));
  const auto require_side = [](const char* field, int64_t side) {
    if (side < 1 || side > kLongestSide) {
      throw UsageError(concat(field, ": expected 1 to ", kLongestSide, " pixels a side, found ", side));
    }
  };
  for (const auto& [field, size] : {std::pair{"size", resize}, {"crop_size", crop}}) {
    if (!size) continue;
    require_side(field, size->height);
    require_side(field, size->width);
  }
  if (shortest_edge) require_side("shortest_edge", *shortest_edge);
  if (resize && shortest_edge) throw UsageError("size: expected a size or a shortest edge, found both");
  if (!std::isfinite(scale)) throw UsageError(concat("rescale_factor: expected a number, found ", scale));
  for (size_t c = 0; c < 3; ++c) {
    if (!std::isfinite(mean[c])) throw UsageError(concat("image_mean: expected numbers, found ", mean[c]));
    if (!std::isfinite(deviation[c]) || deviation[c] == 0) {
      throw UsageError(concat("image_std: expected numbers that are not 0, found ", deviation[c]));
    }
  }
}

ImageProcessorConfig ImageProcessorConfig::sized(ImageSize wanted) const {
  const std::optional<ImageSize> now = size();
  if (!now) throw UsageError("image size: expected preprocessing to a fixed size, found another");
  if (wanted.height < 1 || wanted.width < 1 || std::max(wanted.height, wanted.width) > kLongestSide) {
    throw UsageError(concat("image size: expected 1 to ", kLongestSide, " pixels a side, found ",
                            wanted.height, " x ", wanted.width));
  }
  ImageProcessorConfig other = *this;
  if (resize) {
    other.resize = {scaled(resize->height, wanted.height, now->height),
                    scaled(resize->width, wanted.width, now->width)};
  }
  if (shortest_edge) other.shortest_edge = scaled(*shortest_edge, wanted.height, now->height);
  if (crop) other.crop = wanted;
  return other;
}

ImageProcessor::ImageProcessor(const ImageProcessorConfig& config) : config_(config), values_() {
  config.validate();
  for (size_t c = 0; c < 3; ++c) {
    for (size_t level = 0; level < 256; ++level) {
      const auto value = static_cast<float>(static_cast<double>(level) * config.scale);
      values_[c][level] = (value - config.mean[c]) / config.deviation[c];
    }
  }
}

ImageSize ImageProcessor::resized(ImageSize image) const {
  if (config_.resize) return *config_.resize;
  if (!config_.shortest_edge) return image;
  const int64_t edge = *config_.shortest_edge, shorter = std::min(image.height, image.width);
  // The longer side is rounded down.
  return {edge * image.height / shorter, edge * image.width / shorter};
}

ImageRegion ImageProcessor::region(ImageSize image) const {
  if (image.height < 1 || image.width < 1) {
    throw UsageError(
        concat("image: expected at least 1 x 1 pixels, found ", image.height, " x ", image.width));
  }
  if (!config_.crop) return {};
  const ImageSize whole = resized(image);
  const auto share = [](int64_t pixels, int64_t of) {
    return static_cast<double>(pixels) / static_cast<double>(of);
  };
  const auto& [height, width] = *config_.crop;
  return {.top = share(data::center_crop_begin(whole.height, height), whole.height),
          .left = share(data::center_crop_begin(whole.width, width), whole.width),
          .height = share(height, whole.height),
          .width = share(width, whole.width)};
}

data::Image ImageProcessor::resize_and_crop(const data::Image& image) const {
  data::require_pixels(image);
  data::Image result;
  const data::Image* now = &image;
  if (config_.channels == 1) {
    result = data::to_grey(image);
    now = &result;
  }
  if (config_.resize || config_.shortest_edge) {
    const ImageSize size = resized({image.height, image.width});
    if (config_.crop && config_.crop->height <= size.height && config_.crop->width <= size.width) {
      return data::resize_center(*now, size.height, size.width, config_.resampling, config_.crop->height,
                                 config_.crop->width);
    }
    result = data::resize(*now, size.height, size.width, config_.resampling);
    now = &result;
  }
  return config_.crop ? data::center_crop(*now, config_.crop->height, config_.crop->width) : *now;
}

void ImageProcessor::normalize(const data::Image& seen, float* to) const {
  data::require_pixels(seen);
  const int64_t pixels = seen.height * seen.width;
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = 0; c < config_.channels; ++c) {
      to[c * pixels + i] = values_[static_cast<size_t>(c)][seen.pixels[static_cast<size_t>(3 * i + c)]];
    }
  }
}

Tensor ImageProcessor::operator()(std::span<const data::Image> images) const {
  if (images.empty()) throw UsageError("images: expected at least one, found none");
  Tensor pixels;
  for (size_t i = 0; i < images.size(); ++i) {
    const data::Image one = resize_and_crop(images[i]);
    if (i == 0) pixels = Tensor::empty({std::ssize(images), config_.channels, one.height, one.width});
    if (one.height != pixels.dim(2) || one.width != pixels.dim(3)) {
      throw UsageError(concat("images: expected all to become ", pixels.dim(2), " x ", pixels.dim(3),
                              " like the first, found ", one.height, " x ", one.width));
    }
    normalize(one, pixels.data() + static_cast<int64_t>(i) * config_.channels * one.height * one.width);
  }
  return pixels;
}

}  // namespace qkv::models

#include "qkv/models/image_tiles.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/data/resize.h"
#include "qkv/models/hub/config_reader.h"

namespace qkv::models {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLongestEdge = 4096;  // of images that are cut, as in transformers

// The preprocessing of a class as that of one that read_image_processor() knows, with transformers' defaults.
struct Alias {
  std::string_view name, known;
  const char* defaults;
};
constexpr std::array<Alias, 4> kAliases{
    {{"Idefics3", "Siglip", R"({"resample": 1, "size": {"longest_edge": 1456}})"},
     {"SmolVLM", "Siglip", R"({"resample": 1, "size": {"longest_edge": 1456}})"},
     {"Gemma3", "Siglip", R"({"resample": 2})"},
     {"Llava", "CLIP", "{}"}}};
constexpr int64_t kDefaultSide = 364;

int64_t up_to_multiple(int64_t length, int64_t of) { return (length + of - 1) / of * of; }

// Python's int(length / ratio) and int(length * ratio), in double precision.
int64_t divided(int64_t length, double ratio) {
  return static_cast<int64_t>(static_cast<double>(length) / ratio);
}
int64_t times(int64_t length, double ratio) {
  return static_cast<int64_t>(static_cast<double>(length) * ratio);
}

double ratio_of(ImageSize size) { return static_cast<double>(size.width) / static_cast<double>(size.height); }

// The longer side has `edge` pixels, the other an even number.
ImageSize with_longest_edge(ImageSize image, int64_t edge) {
  const double ratio = ratio_of(image);
  const auto even = [](int64_t length) { return std::max<int64_t>(length + length % 2, 1); };
  ImageSize size = image.width >= image.height ? ImageSize{even(divided(edge, ratio)), edge}
                                               : ImageSize{edge, even(times(edge, ratio))};
  const double new_ratio = ratio_of(size);
  if (size.width >= size.height && size.width > kLongestEdge) {
    size = {std::max<int64_t>(divided(kLongestEdge, new_ratio), 1), kLongestEdge};
  } else if (size.height > size.width && size.height > kLongestEdge) {
    size = {kLongestEdge, std::max<int64_t>(times(kLongestEdge, new_ratio), 1)};
  }
  return size;
}

ImageSize in_multiples(ImageSize image, int64_t side) {
  const double ratio = ratio_of(image);
  if (image.width >= image.height) {
    const int64_t width = up_to_multiple(image.width, side);
    return {up_to_multiple(divided(width, ratio), side), width};
  }
  const int64_t height = up_to_multiple(image.height, side);
  return {height, up_to_multiple(times(height, ratio), side)};
}

data::Image part_of(const data::Image& image, int64_t top, int64_t left, int64_t side) {
  data::Image part{.height = side, .width = side, .pixels = {}};
  part.pixels.reserve(static_cast<size_t>(side * side * 3));
  for (int64_t y = top; y < top + side; ++y) {
    const uint8_t* row = image.row(y) + left * 3;
    part.pixels.insert(part.pixels.end(), row, row + side * 3);
  }
  return part;
}

int64_t edge_of(const ConfigReader& reader, const std::string& key, int64_t otherwise) {
  if (!reader.is_object(key)) {
    if (reader.has(key)) reader.reject(key, "an object with \"longest_edge\"");
    return otherwise;
  }
  const ConfigReader size = reader.object(key);
  const int64_t edge = size.integer("longest_edge");
  size.reject_unknown_fields();
  return edge;
}

TileProcessor read_tile_processor(const std::string& text, const std::string& path) {
  const ConfigReader reader(text, path);
  const std::string type = reader.string("image_processor_type", "");
  for (const Alias& alias : kAliases) {
    const bool is_it =
        std::ranges::any_of(std::array{"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil"},
                            [&](const char* ending) { return type == concat(alias.name, ending); });
    if (!is_it) continue;
    Json config = Json::parse(alias.defaults);
    const int64_t usual_edge = config.value("/size/longest_edge"_json_pointer, int64_t{0});
    const Json given = Json::parse(text, nullptr, false);
    if (given.is_discarded()) throw DataError(concat(path, ": expected numbers within a double's range"));
    config.update(given);
    config["image_processor_type"] = concat(alias.known, "ImageProcessor");
    std::optional<TileOptions> tiles;
    if (alias.name == "Gemma3") {
      reader.require_boolean("do_pan_and_scan", false);
      for (const char* key : {"do_pan_and_scan", "pan_and_scan_min_crop_size", "pan_and_scan_max_num_crops",
                              "pan_and_scan_min_ratio_to_activate", "image_seq_length"})
        config.erase(key);
    } else if (alias.known == "Siglip") {
      const int64_t edge = edge_of(reader, "size", usual_edge);
      tiles = {.longest_edge = edge,
               .side = edge_of(reader, "max_image_size", kDefaultSide),
               .split = reader.boolean("do_image_splitting", true)};
      if (!reader.boolean("do_resize", true)) reader.reject("do_resize", "true");
      config["size"] = {{"height", tiles->side}, {"width", tiles->side}};
      for (const char* key : {"do_image_splitting", "max_image_size", "do_pad", "return_row_col_info",
                              "video_sampling", "do_sample_frames"})
        config.erase(key);
    }
    try {
      return TileProcessor(read_image_processor(config.dump(), path), tiles);
    } catch (const UsageError& error) {
      throw DataError(concat(path, ": ", error.what()));
    }
  }
  try {
    return TileProcessor(read_image_processor(text, path), {});
  } catch (const UsageError& error) {
    throw DataError(concat(path, ": ", error.what()));
  }
}

}  // namespace

TileProcessor::TileProcessor(const ImageProcessorConfig& each, const std::optional<TileOptions>& tiles)
    : each_(each), tiles_(tiles) {
  if (!each.size()) throw UsageError("size: expected one that does not depend on the image, found another");
  if (!tiles) return;
  if (tiles->longest_edge < 1 || tiles->longest_edge > kLongestEdge) {
    throw UsageError(
        concat("size: longest_edge: expected 1 to ", kLongestEdge, " pixels, found ", tiles->longest_edge));
  }
  const int64_t least = up_to_multiple(tiles->longest_edge, 64) / 64;  // at most 64 x 64 tiles
  if (tiles->side < least || tiles->side > kLongestEdge) {
    throw UsageError(concat("max_image_size: longest_edge: expected ", least, " to ", kLongestEdge,
                            " pixels, found ", tiles->side));
  }
}

ImageTiles TileProcessor::operator()(const data::Image& image) const {
  if (!tiles_) return {.pixels = each_({&image, 1})};
  data::require_pixels(image);
  const int64_t side = tiles_->side;
  const data::Resampling filter = each_.config().resampling;
  const ImageSize first = with_longest_edge({image.height, image.width}, tiles_->longest_edge);
  data::Image whole = data::resize(image, first.height, first.width, filter);
  if (!tiles_->split) return {.pixels = each_({&whole, 1})};
  const ImageSize fitted = in_multiples(first, side);
  whole = data::resize(whole, fitted.height, fitted.width, filter);
  if (fitted.height <= side && fitted.width <= side) return {.pixels = each_({&whole, 1})};
  ImageTiles tiles{.rows = fitted.height / side, .columns = fitted.width / side, .pixels = {}};
  std::vector<data::Image> parts;
  for (int64_t y = 0; y < tiles.rows; ++y) {
    for (int64_t x = 0; x < tiles.columns; ++x) parts.push_back(part_of(whole, y * side, x * side, side));
  }
  parts.push_back(std::move(whole));
  tiles.pixels = each_(parts);
  return tiles;
}

TileProcessor load_tile_processor(const std::filesystem::path& folder) {
  const auto [text, path] = image_processor_text(folder);
  return read_tile_processor(text, path);
}

}  // namespace qkv::models

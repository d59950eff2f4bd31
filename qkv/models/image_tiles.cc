#include "qkv/models/image_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/data/image_limits.h"
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
constexpr std::array<Alias, 6> kAliases{
    {{"GotOcr2", "CLIP", R"({"size": {"height": 384, "width": 384}})"},
     {"Idefics3", "Siglip", R"({"resample": 1, "size": {"longest_edge": 1456}})"},
     {"SmolVLM", "Siglip", R"({"resample": 1, "size": {"longest_edge": 1456}})"},
     {"Gemma3", "Siglip", R"({"resample": 2})"},
     {"Llava", "CLIP", "{}"},
     {"LlavaNext", "CLIP", "{}"}}};
constexpr int64_t kDefaultSide = 364;

constexpr int64_t kMaxTiles = 64, kMaxResolutions = 1000;

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

// Of images in a size: how many pixels of an image it shows, and the others, which are to be few.
std::pair<int64_t, int64_t> shown_in(ImageSize image, ImageSize size) {
  const double scale = std::min(static_cast<double>(size.width) / static_cast<double>(image.width),
                                static_cast<double>(size.height) / static_cast<double>(image.height));
  const int64_t shown =
      std::min(times(image.width, scale) * times(image.height, scale), image.width * image.height);
  return {shown, shown - size.height * size.width};
}

// The largest size of an image within another that keeps its aspect ratio.
ImageSize fitted_into(ImageSize image, ImageSize size) {
  const double across = static_cast<double>(size.width) / static_cast<double>(image.width),
               down = static_cast<double>(size.height) / static_cast<double>(image.height);
  const auto up = [](int64_t length, double scale) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(length) * scale));
  };
  if (across < down) return {std::min(up(image.height, across), size.height), size.width};
  return {size.height, std::min(up(image.width, down), size.width)};
}

data::Image with_black_around(const data::Image& image, ImageSize size) {
  data::Image padded{.height = size.height, .width = size.width, .pixels = {}};
  padded.pixels.resize(static_cast<size_t>(size.height * size.width * 3));
  const int64_t top = (size.height - image.height) / 2, left = (size.width - image.width) / 2;
  for (int64_t y = 0; y < image.height; ++y) {
    std::copy_n(image.row(y), image.width * 3, padded.pixels.begin() + ((top + y) * size.width + left) * 3);
  }
  return padded;
}

// Rows and columns of the grid whose aspect ratio is nearest to the image's. Of grids that are equally near,
// the largest that has less than twice the image's pixels, or else the smallest.
ImageSize nearest_grid(ImageSize image, ImageSize tile, const AspectOptions& options) {
  const double ratio = ratio_of(image);
  ImageSize best{1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (int64_t count = options.min_tiles; count <= options.max_tiles; ++count) {
    for (int64_t columns = 1; columns <= count; ++columns) {
      if (count % columns != 0) continue;
      const ImageSize grid{count / columns, columns};
      const double difference = std::abs(ratio - ratio_of(grid));
      const bool is_filled = 2 * image.height * image.width > tile.height * tile.width * count;
      if (difference < least || (difference == least && is_filled)) best = grid;
      least = std::min(least, difference);
    }
  }
  return best;
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
  std::string each = text;
  TilePlan plan;
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
    if (alias.name == "LlavaNext") {
      plan = ResolutionOptions{read_resolutions(reader)};
      for (const char* key : {"do_resize", "do_center_crop"}) reader.require_boolean(key, true);
      for (const char* key : {"aspect_ratio_setting", "do_pad", "image_grid_pinpoints"}) config.erase(key);
    } else if (alias.name == "GotOcr2") {
      plan = AspectOptions{.min_tiles = reader.integer("min_patches", 1),
                           .max_tiles = reader.integer("max_patches", 12)};
      reader.require_boolean("do_resize", true);
      // InternVLProcessor cuts images, whatever "crop_to_patches" says, and no image has a centre crop.
      config["do_center_crop"] = false;
      for (const char* key : {"crop_to_patches", "do_pad", "max_patches", "min_patches"}) config.erase(key);
    } else if (alias.name == "Gemma3") {
      reader.require_boolean("do_pan_and_scan", false);
      for (const char* key : {"do_pan_and_scan", "pan_and_scan_min_crop_size", "pan_and_scan_max_num_crops",
                              "pan_and_scan_min_ratio_to_activate", "image_seq_length"})
        config.erase(key);
    } else if (alias.known == "Siglip") {
      const int64_t edge = edge_of(reader, "size", usual_edge);
      const TileOptions tiles{.longest_edge = edge,
                              .side = edge_of(reader, "max_image_size", kDefaultSide),
                              .split = reader.boolean("do_image_splitting", true)};
      plan = tiles;
      if (!reader.boolean("do_resize", true)) reader.reject("do_resize", "true");
      config["size"] = {{"height", tiles.side}, {"width", tiles.side}};
      for (const char* key : {"do_image_splitting", "max_image_size", "do_pad", "return_row_col_info",
                              "video_sampling", "do_sample_frames"})
        config.erase(key);
    }
    each = config.dump();
  }
  try {
    return TileProcessor(read_image_processor(each, path), std::move(plan));
  } catch (const UsageError& error) {
    throw DataError(concat(path, ": ", error.what()));
  }
}

}  // namespace

TileProcessor::TileProcessor(const ImageProcessorConfig& each, TilePlan plan)
    : each_(each), plan_(std::move(plan)) {
  if (!each.size()) throw UsageError("size: expected one that does not depend on the image, found another");
  const ImageSize tile = size();
  const auto is_too_much = [&](int64_t count) {
    return count > kMaxTiles || count * tile.height * tile.width > kLongestEdge * kLongestEdge;
  };
  if (const auto* given = std::get_if<ResolutionOptions>(&plan_)) {
    if (tile.height != tile.width) throw UsageError("crop_size: expected a square, found another");
    if (given->resolutions.empty() || std::ssize(given->resolutions) > kMaxResolutions) {
      throw UsageError(concat("image_grid_pinpoints: expected 1 to ", kMaxResolutions, " sizes, found ",
                              given->resolutions.size()));
    }
    for (const auto& [height, width] : given->resolutions) {
      const int64_t rows = height / tile.height, columns = width / tile.width;
      if (std::min(height, width) < 1 || std::max(rows, columns) > kMaxTiles ||
          rows * tile.height != height || columns * tile.width != width || is_too_much(rows * columns)) {
        throw UsageError(concat("image_grid_pinpoints: expected sizes of 1 to ", kMaxTiles, " tiles of ",
                                tile.height, " x ", tile.width, " pixels, and at most ", kLongestEdge, " x ",
                                kLongestEdge, " pixels, found ", height, " x ", width));
      }
    }
  }
  if (const auto* counts = std::get_if<AspectOptions>(&plan_)) {
    if (!each.resize || tile.height != tile.width)
      throw UsageError("size: expected the same height and width, found others");
    if (counts->min_tiles < 1 || counts->min_tiles > counts->max_tiles || is_too_much(counts->max_tiles)) {
      throw UsageError(concat("min_patches, max_patches: expected 1 to ", kMaxTiles, " tiles, and at most ",
                              kLongestEdge, " x ", kLongestEdge, " pixels, found ", counts->min_tiles, " to ",
                              counts->max_tiles, " of ", tile.height, " x ", tile.width));
    }
  }
  const auto* tiles = std::get_if<TileOptions>(&plan_);
  if (tiles == nullptr) return;
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

std::vector<ImageSize> TileProcessor::resolutions() const {
  const auto* given = std::get_if<ResolutionOptions>(&plan_);
  return given != nullptr ? given->resolutions : std::vector<ImageSize>();
}

ImageTiles TileProcessor::cut(const data::Image& image, data::Image whole) const {
  const int64_t side = size().height;
  ImageTiles tiles{.rows = image.height / side, .columns = image.width / side, .pixels = {}};
  std::vector<data::Image> parts;
  for (int64_t y = 0; y < tiles.rows; ++y) {
    for (int64_t x = 0; x < tiles.columns; ++x) parts.push_back(part_of(image, y * side, x * side, side));
  }
  parts.push_back(std::move(whole));
  tiles.pixels = each_(parts);
  return tiles;
}

ImageTiles TileProcessor::tiles(const data::Image& image, const TileOptions& options) const {
  const data::Resampling filter = each_.config().resampling;
  const ImageSize first = with_longest_edge({image.height, image.width}, options.longest_edge);
  data::Image whole = data::resize(image, first.height, first.width, filter);
  if (!options.split) return {.pixels = each_({&whole, 1})};
  const ImageSize fitted = in_multiples(first, options.side);
  whole = data::resize(whole, fitted.height, fitted.width, filter);
  if (fitted.height <= options.side && fitted.width <= options.side) return {.pixels = each_({&whole, 1})};
  return cut(whole, whole);
}

ImageTiles TileProcessor::tiles(const data::Image& image, const ResolutionOptions& options) const {
  const ImageProcessorConfig& each = each_.config();
  const ImageSize found{image.height, image.width};
  const ImageSize best =
      *std::ranges::max_element(options.resolutions, {}, [&](ImageSize one) { return shown_in(found, one); });
  const ImageSize fitted = fitted_into(found, best);
  const ImageSize square = each.resize ? *each.resize : ImageSize{*each.shortest_edge, *each.shortest_edge};
  return cut(with_black_around(data::resize(image, fitted.height, fitted.width, each.resampling), best),
             data::resize(image, square.height, square.width, each.resampling));
}

ImageTiles TileProcessor::tiles(const data::Image& image, const AspectOptions& options) const {
  const ImageSize tile = size(), grid = nearest_grid({image.height, image.width}, tile, options);
  if (grid == ImageSize{1, 1}) return {.pixels = each_({&image, 1})};
  return cut(
      data::resize(image, grid.height * tile.height, grid.width * tile.width, each_.config().resampling),
      image);
}

ImageTiles TileProcessor::operator()(const data::Image& image) const {
  data::require_pixels(image);
  return std::visit(
      [&](const auto& options) -> ImageTiles {
        if constexpr (std::is_same_v<decltype(options), const std::monostate&>)
          return {.pixels = each_({&image, 1})};
        else
          return tiles(image, options);
      },
      plan_);
}

std::vector<ImageSize> read_resolutions(const ConfigReader& reader) {
  constexpr const char* kField = "image_grid_pinpoints";
  if (!reader.has(kField)) return {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  const Json sizes = Json::parse(reader.find(kField)->text(), nullptr, false);
  const auto is_side = [](const Json& side) { return side.is_number_unsigned() && side <= kLongestEdge; };
  std::vector<ImageSize> found;
  for (const Json& size : sizes.is_array() ? sizes : Json::array({nullptr})) {
    if (!size.is_array() || size.size() != 2 || !std::ranges::all_of(size, is_side))
      reader.reject(kField, concat("a list of heights and widths of at most ", kLongestEdge, " pixels"));
    found.push_back({size[0], size[1]});
  }
  return found;
}

TileProcessor load_tile_processor(const std::filesystem::path& folder) {
  const auto [text, path] = image_processor_text(folder);
  return read_tile_processor(text, path);
}

}  // namespace qkv::models

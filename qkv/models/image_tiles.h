#pragma once
// Preprocessing of images for vision towers: one tile, or those of a grid and one of the whole image
// (Idefics3, Laurençon et al. 2024, section 2.2; LLaVA-NeXT, Liu et al. 2024).

#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

#include "qkv/models/image_processor.h"

namespace qkv::models {

class ConfigReader;  // hub/config_reader.h

// How images are cut. First the longer side becomes `longest_edge` pixels, then both a multiple of `side`.
struct TileOptions {
  int64_t longest_edge = 0;
  int64_t side = 0;   // of a tile, in pixels
  bool split = true;  // otherwise the whole image is the only tile
};

// The image is resized to fit into one of these sizes, with black around it: the one that shows most of its
// pixels, and of several the smallest. Sides of sizes are multiples of a tile's.
struct ResolutionOptions {
  std::vector<ImageSize> resolutions = {};
};

// The image is resized to a grid of tiles, whatever its aspect ratio: the grid with the nearest one among
// those of min_tiles to max_tiles tiles (InternVL 1.5, Chen et al. 2024, section 3.2).
struct AspectOptions {
  int64_t min_tiles = 1, max_tiles = 12;
};

// One tile for each image, or those of a grid.
using TilePlan = std::variant<std::monostate, TileOptions, ResolutionOptions, AspectOptions>;

// The tiles of an image, row by row, and last the whole image in the size of one.
struct ImageTiles {
  int64_t rows = 0, columns = 0;  // of the grid; 0: the whole image alone
  Tensor pixels;                  // f32 [tiles, channels, height, width]
};

// Const: safe to use from several threads.
class TileProcessor {
 public:
  // `each`: the preprocessing of a tile; its size is fixed. Throws UsageError for sides out of range, and for
  // plans of more than 64 tiles beside the whole image (TileOptions: 64 x 64) or 4096 x 4096 pixels.
  TileProcessor(const ImageProcessorConfig& each, TilePlan plan);

  ImageSize size() const { return *each_.config().size(); }
  const TilePlan& plan() const { return plan_; }
  // Those of ResolutionOptions; else none.
  std::vector<ImageSize> resolutions() const;
  // Throws UsageError for an image without its pixels.
  ImageTiles operator()(const data::Image& image) const;

 private:
  // The tiles of a grid that `image` fills, and `whole`.
  ImageTiles cut(const data::Image& image, data::Image whole) const;
  ImageTiles tiles(const data::Image& image, const TileOptions& options) const;
  ImageTiles tiles(const data::Image& image, const ResolutionOptions& options) const;
  ImageTiles tiles(const data::Image& image, const AspectOptions& options) const;

  ImageProcessor each_;
  TilePlan plan_;
};

// "image_grid_pinpoints" of config.json and of preprocessor_config.json, or those of LLaVA-NeXT. Throws
// DataError naming the field.
std::vector<ImageSize> read_resolutions(const ConfigReader& reader);

// The preprocessing in a folder's preprocessor_config.json or processor_config.json: Idefics3ImageProcessor,
// SmolVLMImageProcessor, Gemma3ImageProcessor, LlavaImageProcessor, LlavaNextImageProcessor,
// GotOcr2ImageProcessor as InternVL uses it, and those of read_image_processor().
// Throws DataError, also if the size of the result depends on the image, and IoError.
TileProcessor load_tile_processor(const std::filesystem::path& folder);

}  // namespace qkv::models

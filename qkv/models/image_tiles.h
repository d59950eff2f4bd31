#pragma once
// Preprocessing of images for vision towers: one tile, or those of a grid and one of the whole image
// (Idefics3, Laurençon et al. 2024, section 2.2).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "qkv/models/image_processor.h"

namespace qkv::models {

// How images are cut. First the longer side becomes `longest_edge` pixels, then both a multiple of `side`.
struct TileOptions {
  int64_t longest_edge = 0;
  int64_t side = 0;   // of a tile, in pixels
  bool split = true;  // otherwise the whole image is the only tile
};

// The tiles of an image, row by row, and last the whole image in the size of one.
struct ImageTiles {
  int64_t rows = 0, columns = 0;  // of the grid; 0: the whole image alone
  Tensor pixels;                  // f32 [tiles, channels, height, width]
};

// Const: safe to use from several threads.
class TileProcessor {
 public:
  // `each`: the preprocessing of a tile; its size is fixed. Throws UsageError for sides out of range.
  TileProcessor(const ImageProcessorConfig& each, const std::optional<TileOptions>& tiles);

  ImageSize size() const { return *each_.config().size(); }
  // Throws UsageError for an image without its pixels.
  ImageTiles operator()(const data::Image& image) const;

 private:
  ImageProcessor each_;
  std::optional<TileOptions> tiles_;
};

// The preprocessing in a folder's preprocessor_config.json or processor_config.json: Idefics3ImageProcessor,
// SmolVLMImageProcessor, Gemma3ImageProcessor, LlavaImageProcessor, and those of read_image_processor().
// Throws DataError, also if the size of the result depends on the image, and IoError.
TileProcessor load_tile_processor(const std::filesystem::path& folder);

}  // namespace qkv::models

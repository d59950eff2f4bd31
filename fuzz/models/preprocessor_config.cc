// Reads a preprocessor_config.json and applies it to an image.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/models/image_processor.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  const models::ImageProcessorConfig config =
      models::read_image_processor(std::string(bytes), "preprocessor_config.json");
  const models::ImageProcessor processor(config);
  const models::ImageSize size = config.size().value_or(models::ImageSize{});
  const models::ImageSize resized = config.resize.value_or(size);
  const int64_t most = 256;  // larger ones are valid, but slow
  if (size.height * size.width > most * most || resized.height * resized.width > most * most) return;
  if (config.shortest_edge.value_or(0) > most) return;
  const data::Image image{.height = 3, .width = 5, .pixels = std::vector<uint8_t>(45, 77)};
  processor({&image, 1});
}

std::vector<std::string> seeds() {
  return golden_files({"apps/golden/hub", "models/golden"}, "preprocessor_config.json");
}

}  // namespace

const Reader preprocessor_config{"preprocessor_config", read, seeds};

}  // namespace qkv::fuzz

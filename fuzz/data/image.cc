// Decodes, resizes, crops and encodes a PNG or JPEG file.

#include "qkv/data/image.h"

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/data/resize.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  const data::Image decoded = data::decode_image(bytes, "fuzz");
  if (decoded.height * decoded.width > 1 << 20) return;  // valid, but slow
  const data::Image small = data::resize(decoded, 7, 9, static_cast<data::Resampling>(bytes.size() % 6));
  data::encode_png(data::center_crop(small, 5, 12));
}

std::vector<std::string> seeds() {
  std::vector<std::string> all = golden_files({"data/golden/images"}, ".jpg");
  for (std::string& png : golden_files({"data/golden/images"}, ".png")) all.push_back(std::move(png));
  return all;
}

}  // namespace

const Reader image{"image", read, seeds};

}  // namespace qkv::fuzz

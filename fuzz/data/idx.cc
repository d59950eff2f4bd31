// Reads IDX files of images and of labels as the images of a training set.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/data/images/image_set.h"

namespace qkv::fuzz {
namespace {

// The first two bytes are the length of the images' file, the rest are both files.
void read(std::string_view bytes) {
  static const std::filesystem::path folder = scratch_folder("idx");
  if (bytes.size() < 2) return;
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t length = byte(0) << 8 | byte(1);
  write(folder / "images", bytes.substr(2, length));
  write(folder / "labels", bytes.size() > 2 + length ? bytes.substr(2 + length) : std::string_view());
  const data::ImageSet set = data::read_images({folder / "images", folder / "labels"}, data::ImagePart::train,
                                               {.channels = bytes.size() % 2 == 0 ? 1 : 3});
  data::channel_moments(set);
  data::fingerprint(set);
}

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

std::string joined(const std::string& images, const std::string& labels) {
  const auto length = static_cast<uint32_t>(images.size());
  return big_endian(length).substr(2) + images + labels;
}

std::vector<std::string> seeds() {
  std::string images = big_endian(0x0803) + big_endian(3) + big_endian(4) + big_endian(5);
  for (int i = 0; i < 3 * 4 * 5; ++i) images += static_cast<char>(i * 37);
  const std::string labels = big_endian(0x0801) + big_endian(3) + std::string("\2\0\1", 3);
  // By gzip: 3 images of 4 x 5 pixels of 200, and their labels 2, 0, 1.
  using namespace std::string_literals;
  return {
      joined(images, labels),
      joined(
          "\x1F\x8B\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\xE0\x60\x66\x60\x60\x00\x61\x16\x20\x66\x3D\x41\x01\x00\x00\x0C\x53\x3B\xEA\x4C\x00\x00\x00"s,
          "\x1F\x8B\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\xE0\x60\x64\x60\x60\x60\x66\x62\x60\x04\x00\x7C\x58\xC3\x7A\x0B\x00\x00\x00"s)};
}

}  // namespace

const Reader idx{"idx", read, seeds};

}  // namespace qkv::fuzz

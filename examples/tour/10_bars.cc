// Writes images for the ViT: bright bars, lying (class 0) or standing (class 1), in the format of MNIST.
#include <fstream>

#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kSide = 16;

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

void write(const std::string& name, int images, uint64_t seed) {
  RandomStream random(seed);
  std::ofstream pixels(name + "-images.idx", std::ios::binary),
      labels(name + "-labels.idx", std::ios::binary);
  pixels << big_endian(0x0803) << big_endian(static_cast<uint32_t>(images)) << big_endian(kSide)
         << big_endian(kSide);
  labels << big_endian(0x0801) << big_endian(static_cast<uint32_t>(images));
  for (int image = 0; image < images; ++image) {
    const uint64_t standing = random.below(2), place = random.below(kSide);
    labels << static_cast<char>(standing);
    for (uint64_t y = 0; y < kSide; ++y) {
      for (uint64_t x = 0; x < kSide; ++x)
        pixels << static_cast<char>((standing ? x : y) == place ? 200 + random.below(50) : random.below(80));
    }
  }
}

}  // namespace

int main() {
  write("train", 2000, 1);
  write("test", 200, 2);

  data::Image image{.height = kSide, .width = kSide};  // one more, as a PNG file
  for (int x = 0; x < kSide * kSide; ++x)
    image.pixels.insert(image.pixels.end(), 3, static_cast<uint8_t>(x % kSide == 5 ? 220 : 40));
  std::ofstream("standing.png", std::ios::binary) << data::encode_png(image);
}

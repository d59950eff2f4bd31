#include "qkv/data/images/idx.h"

#include <array>
#include <cstdio>

#include "qkv/base/error.h"
#include "qkv/data/images/binary_file.h"

namespace qkv::data {
namespace {

// The magic number is 0, 0, the type of the elements, the number of dimensions.
constexpr uint32_t kBytes = 0x0800;
constexpr int64_t kMaxImages = (int64_t{1} << 31) - 1;

uint32_t big_endian(const std::vector<uint8_t>& bytes, size_t word) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | bytes[4 * word + i];
  return number;
}

std::string hexadecimal(uint32_t number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08X", number);
  return text.data();
}

// Reads the magic number and the counts.
std::vector<int64_t> read_header(BinaryFile& file, uint32_t dimensions, const char* content) {
  const std::vector<uint8_t> header =
      file.read(4 * (1 + int64_t{dimensions}), concat("the header of an IDX file of ", content));
  if (const uint32_t magic = big_endian(header, 0); magic != kBytes + dimensions) {
    throw DataError(concat(file.name(), ": expected an IDX file of ", content, ", which begins with ",
                           hexadecimal(kBytes + dimensions), ", found ", hexadecimal(magic)));
  }
  std::vector<int64_t> counts;
  for (size_t i = 1; i <= dimensions; ++i) counts.push_back(big_endian(header, i));
  if (counts[0] < 1 || counts[0] > kMaxImages) {
    throw DataError(concat(file.name(), ": expected 1 to ", kMaxImages, " ", content, ", found ", counts[0]));
  }
  return counts;
}

}  // namespace

IdxImages read_idx_images(const std::filesystem::path& path) {
  BinaryFile file(path);
  const std::vector<int64_t> counts = read_header(file, 3, "images");
  IdxImages result{.images = counts[0], .height = counts[1], .width = counts[2]};
  for (const int64_t side : {result.height, result.width}) {
    if (side < 1 || side > kMaxIdxSide) {
      throw DataError(concat(file.name(), ": expected images with sides of 1 to ", kMaxIdxSide,
                             " pixels, found ", result.height, " x ", result.width));
    }
  }
  const std::string what = concat(result.images, " images of ", result.height, " x ", result.width);
  result.pixels = file.read(result.images * result.height * result.width, what);
  file.require_end(what);
  return result;
}

std::vector<uint8_t> read_idx_labels(const std::filesystem::path& path) {
  BinaryFile file(path);
  const int64_t count = read_header(file, 1, "labels")[0];
  const std::string what = concat(count, " labels");
  std::vector<uint8_t> labels = file.read(count, what);
  file.require_end(what);
  return labels;
}

}  // namespace qkv::data

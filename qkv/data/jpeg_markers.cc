#include "qkv/data/jpeg_markers.h"

#include <cstddef>
#include <cstdint>

namespace qkv::data {
namespace {

constexpr unsigned kHuffmanTables = 0xC4, kStartOfScan = 0xDA, kEndOfImage = 0xD9, kExif = 0xE1;
constexpr unsigned kOrientationTag = 0x0112, kShort = 3;

// Numbers out of bytes, of either byte order; 0 behind their end.
class Numbers {
 public:
  Numbers(std::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  uint32_t at(size_t place, size_t width) const {
    uint32_t number = 0;
    for (size_t i = 0; i < width; ++i) {
      const size_t k = place + (big_endian_ ? i : width - 1 - i);
      number = number << 8 | (k < bytes_.size() ? static_cast<unsigned char>(bytes_[k]) : 0u);
    }
    return number;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

// The orientation that the first directory of EXIF's TIFF structure names; 1 where it names none.
int orientation_of(std::string_view tiff) {
  const Numbers numbers(tiff, tiff.starts_with("MM"));
  const size_t directory = numbers.at(4, 4), count = numbers.at(directory, 2);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    if (numbers.at(entry, 2) != kOrientationTag || numbers.at(entry + 2, 2) != kShort) continue;
    const uint32_t value = numbers.at(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// Whether each of the tables of a segment's content has at most 256 codes and a symbol for each: a byte, 16
// numbers of codes, the symbols.
bool huffman_tables_fit(std::string_view content) {
  constexpr size_t kLengths = 16, kMaxCodes = 256;
  while (!content.empty()) {
    size_t codes = 0;
    for (size_t i = 1; i <= kLengths; ++i) codes += Numbers(content, true).at(i, 1);
    if (codes > kMaxCodes || 1 + kLengths + codes > content.size()) return false;
    content.remove_prefix(1 + kLengths + codes);
  }
  return true;
}

// The place of the next marker at or behind `place`, within data in which 0xFF is followed by 0.
size_t end_of_scan(std::string_view bytes, size_t place) {
  for (;;) {
    place = bytes.find('\xFF', place);
    if (place == std::string_view::npos || place + 1 >= bytes.size()) return bytes.size();
    const auto next = static_cast<unsigned char>(bytes[place + 1]);
    const bool restart = next >= 0xD0 && next <= 0xD7;
    if (next != 0 && next != 0xFF && !restart) return place;
    place += next == 0xFF ? 1 : 2;
  }
}

}  // namespace

JpegMarkers read_jpeg_markers(std::string_view bytes) {
  JpegMarkers found;
  const Numbers numbers(bytes, true);
  for (size_t place = 2; place + 1 < bytes.size();) {
    if (numbers.at(place, 1) != 0xFF) return found;
    const unsigned marker = numbers.at(place + 1, 1);
    if (marker == 0xFF) {  // padding
      ++place;
      continue;
    }
    if (marker == kEndOfImage) {
      found.complete = true;
      return found;
    }
    const size_t length = numbers.at(place + 2, 2);
    if (length < 2 || place + 2 + length > bytes.size()) return found;
    const std::string_view content = bytes.substr(place + 4, length - 2);
    if (marker == kHuffmanTables && !huffman_tables_fit(content)) found.tables_fit = false;
    constexpr std::string_view kExifName{"Exif\0\0", 6};
    if (marker == kExif && content.starts_with(kExifName)) {
      found.orientation = orientation_of(content.substr(kExifName.size()));
    }
    place += length + 2;
    if (marker == kStartOfScan) place = end_of_scan(bytes, place);
  }
  return found;
}

}  // namespace qkv::data

#include "qkv/data/audio/containers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/data/audio/mono.h"

namespace qkv::data {
namespace {

enum class ByteOrder : uint8_t { little, big };

// The unsigned integer of `size` bytes at `at`; bytes beyond the end are 0.
uint64_t unsigned_at(std::string_view bytes, size_t at, size_t size, ByteOrder order) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    const size_t place = order == ByteOrder::big ? at + i : at + size - 1 - i;
    value = value << 8 | (place < bytes.size() ? static_cast<unsigned char>(bytes[place]) : 0);
  }
  return value;
}

bool is_chunk_name(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
}

// Lengths that say that the length was unknown when the header was written, as ffmpeg and SoX do.
constexpr uint64_t kUnknown = 0xFFFFFFFF, kUnknownOfSox = 0x7FFFF000;

constexpr std::array<uint32_t, 256> ogg_checksums() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte << 24;
    for (int bit = 0; bit < 8; ++bit) rest = rest << 1 ^ (rest >> 31 != 0 ? 0x04C11DB7U : 0U);
    table[byte] = rest;
  }
  return table;
}

}  // namespace

void require_whole_chunks(std::string_view bytes, const std::string& name) {
  const bool aiff = bytes.starts_with("FORM");
  const ByteOrder order = aiff || bytes.starts_with("RIFX") ? ByteOrder::big : ByteOrder::little;
  const char* const format = aiff ? "AIFF" : "WAV";
  uint64_t long_length = kUnknown;  // of RF64 (EBU Tech 3306)
  size_t at = 12;                   // after the file's kind, length and form
  while (at + 8 <= bytes.size()) {
    const std::string_view chunk = bytes.substr(at, 4);
    // What follows a chunk of odd length without padding: libsndfile knows more of these.
    if (!is_chunk_name(chunk)) return;
    uint64_t length = unsigned_at(bytes, at + 4, 4, order);
    at += 8;
    if (chunk == "ds64") long_length = unsigned_at(bytes, at + 8, 8, order);
    if (chunk == "fmt ") {
      const uint64_t coding = unsigned_at(bytes, at, 2, order);
      if (coding == 0x50 || coding == 0x55)
        throw DataError(concat(name,
                               ": expected WAV samples, found MPEG audio in a WAV file (`ffmpeg -i FILE "
                               "out.wav` converts it)"));
    }
    const bool samples = chunk == (aiff ? "SSND" : "data");
    if (samples && length == kUnknown) length = long_length;
    if (samples && (length == kUnknown || length == kUnknownOfSox)) return;
    const uint64_t rest = bytes.size() - at;
    if (length > rest) {
      refuse_audio(name, format,
                   concat(rest, " of ", length, " bytes of its part '", std::string(chunk), "'"));
    }
    if (samples) return;
    at += static_cast<size_t>(length + length % 2);
  }
}

uint32_t ogg_checksum(std::string_view page) {
  static constexpr std::array<uint32_t, 256> kTable = ogg_checksums();
  constexpr size_t kBegin = 22, kEnd = 26;
  uint32_t sum = 0;
  for (size_t i = 0; i < page.size(); ++i) {
    const auto byte = i >= kBegin && i < kEnd ? 0U : static_cast<unsigned char>(page[i]);
    sum = sum << 8 ^ kTable[sum >> 24 ^ byte];
  }
  return sum;
}

size_t ogg_page_length(std::string_view bytes) {
  constexpr size_t kHeader = 27;  // then a byte for each segment: its length
  const size_t segments = bytes.size() < kHeader ? 0 : static_cast<unsigned char>(bytes[kHeader - 1]);
  size_t length = kHeader + segments;
  for (size_t i = kHeader; i < std::min(kHeader + segments, bytes.size()); ++i)
    length += static_cast<unsigned char>(bytes[i]);
  return length;
}

void require_whole_pages(std::string_view bytes, const std::string& name) {
  bool ends_sound = false;
  uint64_t pages = 0;
  std::optional<uint64_t> stream;
  for (size_t at = 0; at < bytes.size();) {
    const std::string_view rest = bytes.substr(at);
    if (!rest.starts_with("OggS")) {
      // Bytes after the last page, such as tags of other programs, hold no sound.
      if (rest.find("OggS") == std::string_view::npos && rest.size() >= 4) break;
      refuse_audio(name, "Ogg", concat("bytes that are no page after the first ", at));
    }
    const size_t length = ogg_page_length(rest);
    if (length > rest.size())
      refuse_audio(name, "Ogg", concat(rest.size(), " bytes of a page of ", length, " or more"));
    const std::string_view page = rest.substr(0, length);
    if (unsigned_at(page, 22, 4, ByteOrder::little) != ogg_checksum(page))
      refuse_audio(name, "Ogg", concat("a page with a wrong checksum after the first ", at, " bytes"));
    const uint64_t number = unsigned_at(page, 14, 4, ByteOrder::little);
    if (stream.value_or(number) != number) {
      throw DataError(concat(name,
                             ": expected an Ogg file of one stream, found several (`ffmpeg -i FILE out.wav` "
                             "converts it)"));
    }
    stream = number;
    if (const uint64_t found = unsigned_at(page, 18, 4, ByteOrder::little); found != pages)
      refuse_audio(name, "Ogg", concat("page ", found, " in place of page ", pages));
    ++pages;
    at += length;
    // The position in samples after the last packet that ends in the page: 0 in headers, all ones without.
    const uint64_t position = unsigned_at(page, 6, 8, ByteOrder::little);
    ends_sound = ends_sound || (position != 0 && position != ~uint64_t{0});
  }
  // libsndfile leaks memory of a file that is cut within its headers.
  if (!ends_sound) refuse_audio(name, "Ogg", "no page that ends sound");
}

}  // namespace qkv::data

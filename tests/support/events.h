#pragma once
// Reading TensorBoard's event files back.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/crc32c.h"

namespace qkv::testing {

template <class T>
T number_at(std::string_view bytes, size_t position) {
  T number{};
  EXPECT_LE(position + sizeof number, bytes.size());
  std::memcpy(&number, bytes.data() + position, sizeof number);
  return number;
}

inline std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto length = number_at<uint64_t>(file, at);
    EXPECT_EQ(number_at<uint32_t>(file, at + 8), io::masked_crc32c(file.substr(at, 8)));
    const std::string record = file.substr(at + 12, length);
    EXPECT_EQ(record.size(), length);
    EXPECT_EQ(number_at<uint32_t>(file, at + 12 + length), io::masked_crc32c(record));
    records.push_back(record);
    at += 16 + length;
  }
  return records;
}

// The fields of a protocol buffer message by number: varints as they are, everything else as bytes.
struct Fields {
  std::map<int, uint64_t> integers;
  std::map<int, std::string> bytes;
};

inline Fields decode(std::string_view message) {
  Fields fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number_at<uint8_t>(message, at++);
      number |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80 || shift > 56) return number;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    const int field = static_cast<int>(key >> 3);
    if ((key & 7) == 0) {
      fields.integers[field] = varint();
      continue;
    }
    const size_t length = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
    fields.bytes[field] = message.substr(at, length);
    at += length;
  }
  return fields;
}

// Tag, step and value of a point of a curve.
using EventPoint = std::tuple<std::string, int64_t, float>;

// The points of all event files of a folder, sorted, with repetitions, except timings ("..._per_second").
inline std::vector<EventPoint> event_points(const std::filesystem::path& folder) {
  std::vector<EventPoint> points;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    for (const std::string& record : records_of(entry.path())) {
      Fields event = decode(record);
      if (!event.bytes.contains(5)) continue;
      Fields value = decode(decode(event.bytes[5]).bytes[1]);
      if (value.bytes[1].ends_with("_per_second")) continue;
      points.emplace_back(value.bytes[1], static_cast<int64_t>(event.integers[2]),
                          number_at<float>(value.bytes[2], 0));
    }
  }
  std::ranges::sort(points);
  return points;
}

}  // namespace qkv::testing

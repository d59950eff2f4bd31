// Image files, compared with Pillow's pixels (tests/golden/images.py).

#include "qkv/data/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/data/exif.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::data;
using namespace qkv::testing;

const std::filesystem::path kImages = std::filesystem::path(QKV_TEST_DATA) / "data" / "golden" / "images";

std::vector<std::string> images(const std::string& ending) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kImages)) {
    const std::string name = entry.path().filename().string();
    const bool answer = name.ends_with(".rgb.png") || name.starts_with("resized");
    if (name.ends_with(ending) && !answer) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

Image pillows(const std::string& name) { return read_image(kImages / (name + ".rgb.png")); }

int largest_difference(const Image& a, const Image& b) {
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  }
  return largest;
}

TEST(ReadImage, HasThePixelsThatAreThere) {
  // The first and last pixel of a known image, as a check independent of the comparisons below.
  const Image image = read_image(kImages / "rgb.png");
  EXPECT_EQ(image.height, 29);
  EXPECT_EQ(image.width, 41);
  ASSERT_EQ(image.pixels.size(), 29u * 41 * 3);
}

TEST(ReadImage, GivesPillowsPixelsOfPngs) {
  const auto names = images(".png");
  ASSERT_EQ(names.size(), 16u);
  for (const std::string& name : names) {
    const Image found = read_image(kImages / name), expected = pillows(name);
    ASSERT_EQ(found.pixels.size(), expected.pixels.size()) << name;
    EXPECT_EQ(found.width, expected.width) << name;
    EXPECT_EQ(largest_difference(found, expected), 0) << name;
  }
}

TEST(ReadImage, GivesPillowsPixelsOfJpegs) {
  const auto names = images(".jpg");
  ASSERT_EQ(names.size(), 18u);
  for (const std::string& name : names) {
    const Image found = read_image(kImages / name), expected = pillows(name);
    ASSERT_EQ(found.pixels.size(), expected.pixels.size()) << name;
    EXPECT_EQ(found.width, expected.width) << name;  // upright for every orientation
    EXPECT_EQ(largest_difference(found, expected), 0) << name;
  }
}

TEST(ReadImage, RefusesWhatIsNoImage) {
  const Scratch scratch;
  const auto refused = [&](std::string_view bytes) {
    const auto path = scratch.write("an image.jpg", bytes);
    const std::string message = message_of<DataError>([&] { read_image(path); });
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    return message;
  };
  EXPECT_NE(refused("").find("an empty file"), std::string::npos);
  EXPECT_NE(refused("hello, this is text").find("another format"), std::string::npos);
  EXPECT_NE(refused("GIF89a\1\0\1").find("a GIF"), std::string::npos);
  EXPECT_NE(refused(std::string_view("RIFF\0\0\0\0WEBPVP8 ", 16)).find("a WebP"), std::string::npos);
  EXPECT_NE(refused("\xFF\xD8\xFF").find("JPEG"), std::string::npos);
  EXPECT_NE(refused("\x89PNG\r\n\x1A\n").find("PNG"), std::string::npos);
  EXPECT_THROW(read_image(scratch / "nothing.png"), IoError);
  EXPECT_THROW(read_image(scratch.path()), IoError);
}

TEST(ReadImage, RefusesImagesThatEndTooEarly) {
  for (const char* name : {"whole.jpg", "progressive.jpg", "turned_6.jpg", "rgb.png", "palette.png"}) {
    const std::string bytes = read_file(kImages / name);
    for (size_t length = 0; length < bytes.size(); length += length < 64 ? 1 : 37) {
      EXPECT_THROW(decode_image(std::string_view(bytes).substr(0, length), name), DataError)
          << name << ", " << length << " of " << bytes.size() << " bytes";
    }
    const size_t most = bytes.size() - (std::string_view(name).ends_with(".png") ? 9 : 1);
    EXPECT_THROW(decode_image(std::string_view(bytes).substr(0, most), name), DataError) << name;
    EXPECT_EQ(decode_image(bytes + "more", name), read_image(kImages / name)) << name;
  }
}

TEST(ReadImage, RefusesHugeImagesBeforeItTakesMemory) {
  std::string bytes = read_file(kImages / "rgb.png");
  const auto with_width = [&](const char* width) { return bytes.substr(0, 16) + width + bytes.substr(19); };
  for (const char* width : {"\x01\x01\x01", "\x7f\xff\xff", "\xff\xff\xff"}) {
    expect_throw<DataError>("huge.png: expected 1 to 134217728 pixels",
                            [&] { decode_image(with_width(width), "huge.png"); });
  }
  // Larger than the file's data, but not too large to decode.
  EXPECT_THROW(decode_image(bytes.substr(0, 16) + std::string("\0\0\x40", 3) + bytes.substr(19), "wide.png"),
               DataError);
}

TEST(ReadImage, SurvivesDamage) {
  for (const char* name : {"halved.jpg", "progressive.jpg", "cmyk.jpg", "palette.png", "rgba.png"}) {
    const std::string bytes = read_file(kImages / name);
    for (size_t at = 2; at < bytes.size(); ++at) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(~damaged[at]);
      try {
        const Image image = decode_image(damaged, name);
        EXPECT_EQ(std::ssize(image.pixels), image.height * image.width * 3);
      } catch (const DataError&) {
        // Rejected, which is allowed.
      }
    }
  }
}

TEST(ReadImage, ChunksOfPixelsMayBeEmpty) {
  std::string bytes = read_file(kImages / "rgb.png");
  ASSERT_EQ(bytes.substr(12, 4), "IHDR");
  bytes.insert(33, std::string("\0\0\0\0IDAT\x35\xAF\x06\x1E", 12));
  EXPECT_EQ(decode_image(bytes, "empty chunk"), read_image(kImages / "rgb.png"));
}

TEST(ReadImage, RefusesHuffmanTablesThatAreTooLong) {
  std::string bytes = read_file(kImages / "whole.jpg");
  const size_t table = bytes.find("\xFF\xC4");
  ASSERT_NE(table, std::string::npos);
  bytes[table + 5 + 8] = '\xFF';  // number of 9-bit codes
  expect_throw<DataError>("long.jpg: expected a complete JPEG file, found an error: Bogus Huffman table",
                          [&] { decode_image(bytes, "long.jpg"); });
}

// A small file with thousands of scans would take hours.
TEST(ReadImage, RefusesThousandsOfScans) {
  const std::string bytes = read_file(kImages / "progressive.jpg");
  const size_t scan = bytes.rfind("\xFF\xDA"), end = bytes.rfind("\xFF\xD9");
  ASSERT_LT(scan, end);
  std::string many = bytes.substr(0, end);
  for (int i = 0; i < 1000; ++i) many += bytes.substr(scan, end - scan);
  many += bytes.substr(end);
  EXPECT_THROW(decode_image(many, "many.jpg"), DataError);
}

TEST(WriteImage, IsReadAgain) {
  const Image image = read_image(kImages / "rgb.png");
  EXPECT_EQ(decode_image(encode_png(image), "again"), image);
  const Image near = decode_image(encode_jpeg(image, 95), "again");
  ASSERT_EQ(near.pixels.size(), image.pixels.size());
  EXPECT_GT(largest_difference(near, image), 0);
  EXPECT_LT(encode_jpeg(image, 30).size(), encode_jpeg(image, 95).size());
  EXPECT_THROW(encode_jpeg(image, 0), UsageError);
  EXPECT_THROW(encode_png({}), UsageError);
  EXPECT_THROW(encode_png({.height = 2, .width = 2, .pixels = {1, 2, 3}}), UsageError);
}

TEST(ExifOrientation, IsReadFromAnyBytes) {
  for (char number = '2'; number <= '8'; ++number) {
    const std::string bytes = read_file(kImages / (std::string("turned_") + number + ".jpg"));
    const size_t begin = bytes.find("Exif");
    ASSERT_NE(begin, std::string::npos);
    const std::string_view segment = std::string_view(bytes).substr(begin, 60);
    EXPECT_EQ(orientation_of(segment), number - '0');
    // If truncated before the entry, it is not found; nothing beyond the end is read.
    for (size_t length = 0; length < 26; ++length)
      EXPECT_EQ(orientation_of(segment.substr(0, length)), 1) << length;
  }
  EXPECT_EQ(orientation_of("no such data"), 1);
}

TEST(Upright, MirrorsAndRotates) {
  // 1 2 3
  // 4 5 6
  Image image{.height = 2, .width = 3, .pixels = {}};
  for (const uint8_t value : std::vector<uint8_t>{1, 2, 3, 4, 5, 6})
    image.pixels.insert(image.pixels.end(), 3, value);
  const auto reds = [&](int orientation) {
    const Image result = upright(image, orientation);
    std::vector<int> values{static_cast<int>(result.height)};
    for (size_t i = 0; i < result.pixels.size(); i += 3) values.push_back(result.pixels[i]);
    return values;
  };
  using Values = std::vector<int>;
  EXPECT_EQ(reds(1), (Values{2, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reds(2), (Values{2, 3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(reds(3), (Values{2, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(reds(4), (Values{2, 4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(reds(5), (Values{3, 1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(reds(6), (Values{3, 4, 1, 5, 2, 6, 3}));
  EXPECT_EQ(reds(7), (Values{3, 6, 3, 5, 2, 4, 1}));
  EXPECT_EQ(reds(8), (Values{3, 3, 6, 2, 5, 1, 4}));
}

}  // namespace

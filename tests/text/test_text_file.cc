#include "qkv/text/text_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/text/lines.h"
#include "tests/support/scratch.h"

namespace qkv::text {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::string text;
  read_text_in_pieces(path, [&](const char* data, size_t bytes) { text.append(data, bytes); });
  return text;
}

std::filesystem::path write_gzip(const testing::Scratch& scratch, const std::string& name,
                                 const std::string& text, const char* mode = "wb") {
  const std::filesystem::path path = scratch / name;
  const gzFile file = gzopen(path.c_str(), mode);
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
  return path;
}

// Longer than any buffer, with lines of all lengths.
std::string long_text() {
  std::string text;
  for (size_t i = 0; i < 3000; ++i) text += std::string(i % 701, static_cast<char>('a' + i % 26)) + "\n";
  return text;
}

TEST(TextFile, NamesTextInUtf16) {
  const testing::Scratch scratch;
  const auto zeros_after = [](std::string_view text) {
    std::string wide;
    for (const char letter : text) wide += std::string{letter, '\0'};
    return wide;
  };
  const std::string little = zeros_after("A cat.\r\nA dog.\r\n");
  const std::string big = std::string(1, '\0') + little.substr(0, little.size() - 1);
  for (const auto& [text, name] : {std::pair("\xFF\xFE" + little, "UTF-16LE"),
                                   {"\xFE\xFF" + big, "UTF-16BE"},
                                   {little, "UTF-16LE"},
                                   {big, "UTF-16BE"}}) {
    EXPECT_EQ(testing::message_of<DataError>([&] { count_lines(scratch.write("text", text)); }),
              concat((scratch / "text").string(), ", line 1, byte 1: expected UTF-8, found ", name,
                     "; iconv -f ", name, " -t UTF-8 converts it"));
  }
  using namespace std::string_literals;
  for (const std::string& text : {"\0"s, "a\0"s, "\0\0\0\0"s, "a\nb\0\nc"s, "\0abcdef"s}) {
    EXPECT_EQ(text_of(scratch.write("text", text)), text);
  }
}

TEST(TextFile, ReadsPlainAndCompressedTextAlike) {
  const testing::Scratch scratch;
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("\x1f"), std::string("\x1fz\nb\0c", 6), long_text()}) {
    EXPECT_EQ(text_of(scratch.write("plain", text)), text);
    EXPECT_EQ(text_of(write_gzip(scratch, "compressed", text)), text);
  }
  write_gzip(scratch, "members", "first\n");
  EXPECT_EQ(text_of(write_gzip(scratch, "members", "second\n", "ab")), "first\nsecond\n");
}

TEST(TextFile, ReadsLinesOfCompressedText) {
  const testing::Scratch scratch;
  const std::string text = long_text();
  std::string joined, line;
  LineReader reader(write_gzip(scratch, "compressed", text));
  while (reader.next(line)) joined += line + "\n";
  EXPECT_EQ(joined, text);
  EXPECT_EQ(reader.lines(), 3000);
  EXPECT_EQ(count_lines(write_gzip(scratch, "unended", "one\r\ntwo")), 2);
}

TEST(TextFile, DetectsAndNamesDamage) {
  const testing::Scratch scratch;
  const std::string good = read_file(write_gzip(scratch, "good", long_text()));
  const auto message_of = [&](const std::string& bytes) {
    const std::filesystem::path path = scratch.write("bad", bytes);
    try {
      text_of(path);
    } catch (const DataError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path.string() + ": expected")) << error.what();
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const size_t kept : {good.size() - 1, good.size() - 8, good.size() / 2, size_t{12}})
    EXPECT_NE(message_of(good.substr(0, kept)).find("truncated"), std::string::npos) << kept;
  // The checksum of the text is in the last eight bytes.
  std::string checksum = good;
  checksum[good.size() - 6] = static_cast<char>(checksum[good.size() - 6] ^ 1);
  EXPECT_NE(message_of(checksum).find("damaged"), std::string::npos);
  EXPECT_THROW(TextFile(scratch / "missing"), IoError);
  EXPECT_THROW(TextFile{scratch.path()}, IoError);
}

}  // namespace
}  // namespace qkv::text

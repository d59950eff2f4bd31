#include "qkv/io/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "qkv/io/gguf.h"
#include "tests/support/scratch.h"

namespace qkv::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST(GgufWriter, WritesWhatIsRead) {
  const testing::Scratch folder;
  GgufMetadata metadata;
  metadata.text("general.architecture", "first");
  metadata.integer("count", 4294967295);
  metadata.number("number", 0.1);
  metadata.boolean("flag", true);
  metadata.integers("ids", std::vector<int32_t>{3, -1});
  metadata.numbers("scores", std::vector<float>{0.5f, -2});
  metadata.texts("tokens", std::vector<std::string>{"a", "", "ß"});
  metadata.text("general.architecture", "llama");  // replaces the first
  const std::vector<float> numbers{1, 2, 3};
  const std::vector<std::byte> blocks(2 * 34, std::byte{7});
  GgufWriter writer(folder / "a.gguf", metadata,
                    {{"vector", {3}, DType::f32}, {"matrix", {2, 32}, DType::q8_0}});
  writer.write(numbers.data(), 8);
  writer.write(numbers.data() + 2, 4);
  writer.write(blocks.data(), blocks.size());
  EXPECT_FALSE(std::filesystem::exists(folder / "a.gguf"));
  writer.commit();

  const GgufFile file(folder / "a.gguf");
  EXPECT_THAT(file.keys(),
              ElementsAre("general.architecture", "count", "number", "flag", "ids", "scores", "tokens"));
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("count"), 4294967295);
  EXPECT_EQ(file.number("number"), double{0.1f});
  EXPECT_EQ(file.boolean("flag"), true);
  EXPECT_THAT(file.integers("ids"), ElementsAre(3, -1));
  EXPECT_THAT(file.numbers("scores"), ElementsAre(0.5, -2.0));
  EXPECT_THAT(file.texts("tokens"), ElementsAre("a", "", "ß"));
  EXPECT_EQ(file.entry("vector").shape, Shape({3}));
  EXPECT_EQ(file.entry("matrix").shape, Shape({2, 32}));
  EXPECT_EQ(file.entry("matrix").dtype, DType::q8_0);
  EXPECT_EQ(std::memcmp(file.entry("vector").bytes.data(), numbers.data(), 12), 0);
  EXPECT_TRUE(std::ranges::equal(file.entry("matrix").bytes, blocks));

  GgufMetadata again;  // values of any kind, as they are
  for (const std::string& key : file.keys()) again.stored(key, file.stored(key));
  EXPECT_EQ(again.bytes(), metadata.bytes());
}

TEST(GgufWriter, RefusesWhatTheFormatLacks) {
  const testing::Scratch folder;
  const auto refused = [&](std::vector<GgufWriter::Tensor> tensors) {
    return message_of<UsageError>([&] { GgufWriter(folder / "a.gguf", {}, std::move(tensors)); });
  };
  EXPECT_THAT(refused({{"t", {2, 48}, DType::q4_k}}),
              HasSubstr("t: expected rows of a multiple of 256 numbers"));
  EXPECT_THAT(refused({{"t", {2, 32}, DType::u8}}), HasSubstr("t: expected a dtype of GGUF files, found u8"));
  EXPECT_THAT(refused({{"t", {1}}, {"t", {1}}}), HasSubstr("expected one tensor, found several"));
  EXPECT_THAT(refused({{"", {1}}}), HasSubstr("expected a name"));
  GgufMetadata metadata;
  EXPECT_THAT(message_of<UsageError>([&] { metadata.integer("k", -1); }),
              HasSubstr("k: expected an integer from 0 to 4294967295, found -1"));
  GgufWriter writer(folder / "a.gguf", {}, {{"t", {2}, DType::f32}});
  const std::vector<float> numbers(3);
  EXPECT_THAT(message_of<UsageError>([&] { writer.write(numbers.data(), 12); }),
              HasSubstr("expected 8 more bytes of t, found 12"));
  EXPECT_THAT(message_of<UsageError>([&] { writer.commit(); }),
              HasSubstr("expected the data of t, found 0 bytes"));
}

TEST(GgufWriter, NamesAFullDisk) {
  EXPECT_THAT(message_of<IoError>([] {
                GgufWriter writer("/dev/full", {}, {{"t", {2}, DType::f32}});
                writer.commit();
              }),
              HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace qkv::io

#include "qkv/io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/io/safetensors.h"
#include "qkv/tensor/block_dtypes.h"
#include "qkv/tensor/half.h"
#include "tests/support/scratch.h"

namespace qkv::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kGolden = std::filesystem::path(QKV_TEST_DATA) / "io/golden";

std::vector<float> numbers_of(const GgufFile::Entry& entry) {
  std::vector<float> numbers(static_cast<size_t>(entry.shape.numel()));
  const auto halves = [&]<class Half>(Half half) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(&half, entry.bytes.data() + i * sizeof half, sizeof half);
      numbers[i] = widened(half);
    }
  };
  if (entry.dtype == DType::f32) {
    std::memcpy(numbers.data(), entry.bytes.data(), entry.bytes.size());
  } else if (entry.dtype == DType::f16) {
    halves(Float16());
  } else if (entry.dtype == DType::bf16) {
    halves(BFloat16());
  } else {
    widen_blocks(*entry.dtype, entry.bytes.data(), entry.shape.numel(), numbers.data());
  }
  return numbers;
}

TEST(Gguf, TensorsHaveTheNumbersOfTheGgufPackage) {
  const GgufFile file(kGolden / "types.gguf");
  const SafetensorsFile expected(kGolden / "types.safetensors");
  ASSERT_EQ(file.names(), expected.names());
  ASSERT_EQ(file.names().size(), 12u);
  for (const std::string& name : file.names()) {
    const GgufFile::Entry& entry = file.entry(name);
    ASSERT_TRUE(entry.dtype) << name;
    EXPECT_EQ(name_of(*entry.dtype), name);
    EXPECT_EQ(entry.shape, expected.shape(name));
    const std::vector<float> found = numbers_of(entry);
    EXPECT_EQ(std::memcmp(found.data(), expected.bytes(name).data(), found.size() * sizeof(float)), 0)
        << name;
  }
}

TEST(Gguf, ReadsEachKindOfMetadata) {
  const GgufFile file(kGolden / "types.gguf");
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("kind.u8"), 200);
  EXPECT_EQ(file.integer("kind.i8"), -100);
  EXPECT_EQ(file.integer("kind.u16"), 60000);
  EXPECT_EQ(file.integer("kind.i16"), -30000);
  EXPECT_EQ(file.integer("kind.u32"), 4000000000);
  EXPECT_EQ(file.integer("kind.i32"), -2000000000);
  EXPECT_EQ(file.integer("kind.u64"), int64_t{1} << 40);
  EXPECT_EQ(file.integer("kind.i64"), -(int64_t{1} << 40));
  EXPECT_EQ(file.number("kind.f32"), double{0.1f});
  EXPECT_EQ(file.number("kind.f64"), 0.1);
  EXPECT_EQ(file.number("kind.u8"), 200.0);
  EXPECT_EQ(file.boolean("kind.bool"), true);
  EXPECT_EQ(file.text("kind.text"), "Grüße");
  EXPECT_THAT(file.integers("list.integers"), ElementsAre(3, -1, 4));
  EXPECT_THAT(file.numbers("list.numbers"), ElementsAre(0.5, -2.0));
  EXPECT_THAT(file.texts("list.texts"), ElementsAre("a", "", "ß"));
  EXPECT_EQ(file.integer("none"), std::nullopt);
  EXPECT_TRUE(file.texts("none").empty());
  const auto refused = [&](const auto& read) { return testing::message_of<DataError>(read); };
  EXPECT_THAT(refused([&] { file.integer("kind.text"); }),
              HasSubstr("types.gguf: kind.text: expected an integer, found \"Grüße\""));
  EXPECT_THAT(
      refused([&] { file.texts("list.integers"); }),
      HasSubstr("list.integers: expected a list of texts, found a list of 3 values, each an integer"));
  EXPECT_THAT(refused([&] { file.text("kind.bool"); }), HasSubstr("expected a text, found true"));
  EXPECT_THAT(refused([&] { file.entry("none"); }), HasSubstr("expected a tensor none, found 12 tensors"));
}

// A file in memory, written in parts.
class Bytes {
 public:
  template <class T>
  Bytes& put(T number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Bytes& put_text(std::string_view text) {
    put(uint64_t{text.size()});
    text_ += text;
    return *this;
  }
  Bytes& header(uint64_t tensors, uint64_t values) {
    text_ += "GGUF";
    return put(uint32_t{3}).put(tensors).put(values);
  }
  // A tensor [2, 32] of this type at an offset.
  Bytes& tensor(std::string_view name, uint32_t type, uint64_t offset, uint64_t columns = 32) {
    return put_text(name).put(uint32_t{2}).put(columns).put(uint64_t{2}).put(type).put(offset);
  }
  Bytes& data(size_t bytes) {
    text_.resize((text_.size() + 31) / 32 * 32 + bytes, '\x11');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string complaint(const std::string& content) {
  const testing::Scratch folder;
  folder.write("a.gguf", content);
  return testing::message_of<DataError>([&] { GgufFile(folder.path() / "a.gguf"); });
}

TEST(Gguf, NamesTheFlawOfAFile) {
  const auto expect = [](const Bytes& bytes, const std::string& part) {
    EXPECT_THAT(complaint(bytes.text()), HasSubstr(part));
  };
  constexpr uint64_t kMany = uint64_t{1} << 62;
  EXPECT_THAT(complaint("GGML and more"),
              HasSubstr("a.gguf: expected a GGUF file, which begins with \"GGUF\""));
  EXPECT_THAT(complaint(std::string("GGUF\0\0\0\3", 8)), HasSubstr("found a big-endian file"));
  EXPECT_THAT(complaint(std::string("GGUF\1\0\0\0", 8)), HasSubstr("found version 1"));
  EXPECT_THAT(complaint(std::string("GGUF\3\0\0\0", 8)), HasSubstr("the number of tensors"));
  expect(Bytes().header(0, 1), "expected a metadata key, 8 bytes at byte 24, found the end of the file");
  expect(Bytes().header(0, 1).put(kMany), "expected a metadata key, 4611686018427387904 bytes");
  expect(Bytes().header(0, 1).put_text("a").put(uint32_t{13}),
         "a: expected a kind of value below 13, found 13");
  expect(Bytes().header(0, 1).put_text("\xFF").put(uint32_t{0}), "invalid UTF-8");
  expect(Bytes().header(0, 1).put_text("a").put(uint32_t{10}).put(~uint64_t{0}),
         "a: expected an integer below 2^63");
  // Lists that promise more than the file has, and those whose bytes overflow 64 bits.
  for (const uint32_t kind : {0u, 8u, 12u})
    expect(Bytes().header(0, 1).put_text("a").put(uint32_t{9}).put(kind).put(kMany), "expected a, ");
  expect(Bytes().header(0, 1).put_text("a").put(uint32_t{9}).put(uint32_t{9}).put(uint64_t{1}),
         "found one of lists");
  expect(Bytes()
             .header(0, 2)
             .put_text("a")
             .put(uint32_t{7})
             .put(uint8_t{1})
             .put_text("a")
             .put(uint32_t{7})
             .put(uint8_t{0}),
         "a: expected one value, found several");
  expect(Bytes().header(1, 0).put_text("t").put(uint32_t{5}), "t: expected 1 to 4 extents, found 5");
  expect(Bytes().header(1, 0).tensor("t", 0, 0, kMany).data(256), "t: expected extents from 1 to 2^60");
  expect(Bytes().header(1, 0).tensor("t", 77, 0).data(256),
         "t: expected a known type of tensor, found number 77");
  expect(Bytes().header(1, 0).tensor("t", 12, 0).data(256),
         "rows of a multiple of 256 numbers, as it is Q4_K, found 32");
  expect(Bytes().header(1, 0).tensor("t", 0, 8).data(512),
         "t: expected data at a multiple of 32 bytes, found byte 8");
  expect(Bytes().header(1, 0).tensor("t", 0, 0).data(255),
         "t: expected 256 bytes of data at byte 0, found 255");
  expect(Bytes().header(2, 0).tensor("t", 0, 0).tensor("u", 0, 224).data(512),
         "u: expected data from byte 256 on, found byte 224");
  expect(Bytes().header(2, 0).tensor("t", 0, 0).tensor("t", 0, 256).data(512),
         "t: expected one tensor, found several");
  expect(Bytes().header(0, 1).put_text("general.alignment").put(uint32_t{4}).put(uint32_t{24}),
         "general.alignment: expected a power of two up to 2^20, found 24");
}

TEST(Gguf, OpensTypesThatAreNotRead) {
  const testing::Scratch folder;
  folder.write("a.gguf", Bytes().header(1, 0).tensor("t", 16, 0, 256).data(512).text());
  const GgufFile file(folder.path() / "a.gguf");
  EXPECT_FALSE(file.entry("t").dtype);
  EXPECT_EQ(file.entry("t").type, "IQ2_XXS");
}

// Every mutation opens or is refused; reading what opened stays within the file.
TEST(Gguf, MutatedFilesAreReadOrRefused) {
  const std::string whole = read_file(kGolden / "types.gguf");
  const testing::Scratch folder;
  RandomStream random(1);
  const auto below = [&](size_t limit) {
    return std::min(limit - 1, static_cast<size_t>(random.uniform() * static_cast<float>(limit)));
  };
  int opened = 0;
  for (int i = 0; i < 300; ++i) {
    std::string mutated = whole;
    for (int change = 0; change < 3; ++change)
      mutated[below(1600)] = static_cast<char>(below(256));  // within the header
    if (i % 3 == 0) mutated.resize(below(whole.size()));
    std::ofstream(folder.path() / "a.gguf", std::ios::binary | std::ios::trunc) << mutated;
    try {
      const GgufFile file(folder.path() / "a.gguf");
      for (const std::string& name : file.names()) {
        if (file.entry(name).dtype) numbers_of(file.entry(name));
      }
      ++opened;
    } catch (const DataError&) {
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, 300);
}

}  // namespace
}  // namespace qkv::io

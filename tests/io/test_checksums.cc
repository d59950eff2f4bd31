#include "qkv/io/checksums.h"

#include <gtest/gtest.h>

#include "qkv/base/files.h"
#include "qkv/io/crc32c.h"
#include "tests/support/scratch.h"

namespace qkv::io {
namespace {

using testing::Scratch;

std::vector<NamedTensor> tensors() {
  return {{"a", Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2})},
          {"b", Tensor::from(std::vector<int32_t>{5, 6, 7}, {3})}};
}

TEST(Crc32c, InPartsAsInOne) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i * i);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string_view view = bytes;
    EXPECT_EQ(crc32c(view.substr(cut), crc32c(view.substr(0, cut))), crc32c(bytes)) << cut;
  }
  // One bit at a time, at every position within the eight bytes of a step.
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 0x10);
    EXPECT_NE(crc32c(other), crc32c(bytes)) << i;
  }
}

TEST(Checksums, MatchUntilABitOfATensorFlips) {
  const Scratch scratch;
  const auto path = scratch / "model.safetensors";
  write_safetensors(path, tensors(), with_checksums({{"format", "pt"}}, tensors()));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const float one[] = {1, 2, 3, 4};
  EXPECT_EQ(file.metadata().at("crc32c:a"),
            checksum_text(crc32c({reinterpret_cast<const char*>(one), sizeof one})));
  const ChecksumReport report = verify_checksums(file);
  EXPECT_EQ(report.matching, 2);
  EXPECT_TRUE(report.good());
  EXPECT_TRUE(report.carries_checksums());

  const std::string bytes = read_file(path);
  const size_t data = bytes.size() - 7 * sizeof(float);
  for (size_t i = data; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_file_atomically(path, damaged);
    const ChecksumReport found = verify_checksums(SafetensorsFile(path));
    EXPECT_EQ(found.differing, std::vector<std::string>{i < data + 4 * sizeof(float) ? "a" : "b"}) << i;
    EXPECT_FALSE(found.good());
  }
}

TEST(Checksums, ReportsTensorsAndChecksumsWithoutEachOther) {
  const Scratch scratch;
  const auto path = scratch / "model.safetensors";
  write_safetensors(path, tensors());
  const ChecksumReport none = verify_checksums(SafetensorsFile(path));
  EXPECT_FALSE(none.carries_checksums());
  EXPECT_TRUE(none.good());
  EXPECT_EQ(none.unchecked, (std::vector<std::string>{"a", "b"}));

  Metadata metadata = with_checksums({}, tensors());
  metadata["crc32c:gone"] = "00000000";
  metadata.erase("crc32c:a");
  write_safetensors(path, tensors(), metadata);
  const ChecksumReport found = verify_checksums(SafetensorsFile(path));
  EXPECT_EQ(found.missing, std::vector<std::string>{"gone"});
  EXPECT_EQ(found.unchecked, std::vector<std::string>{"a"});
  EXPECT_EQ(found.matching, 1);
  EXPECT_FALSE(found.good());
}

}  // namespace
}  // namespace qkv::io

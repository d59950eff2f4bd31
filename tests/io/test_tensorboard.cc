#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/crc32c.h"
#include "qkv/io/tensorboard.h"
#include "tests/support/scratch.h"

namespace qkv::io {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising;
  for (char byte = 0; byte < 32; ++byte) rising += byte;
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(masked_crc32c(""), 0xA282EAD8u);
}

template <class T>
T number_at(std::string_view bytes, size_t position) {
  T number{};
  EXPECT_LE(position + sizeof number, bytes.size());
  std::memcpy(&number, bytes.data() + position, sizeof number);
  return number;
}

std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto length = number_at<uint64_t>(file, at);
    EXPECT_EQ(number_at<uint32_t>(file, at + 8), masked_crc32c(file.substr(at, 8)));
    const std::string record = file.substr(at + 12, length);
    EXPECT_EQ(record.size(), length);
    EXPECT_EQ(number_at<uint32_t>(file, at + 12 + length), masked_crc32c(record));
    records.push_back(record);
    at += 16 + length;
  }
  return records;
}

// The fields of a protocol buffer message by number: varints as integers, everything else as bytes.
struct Fields {
  std::map<int, uint64_t> integers;
  std::map<int, std::string> bytes;
};

Fields decode(std::string_view message) {
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

TEST(EventWriter, RecordsDecodeToWhatWasWritten) {
  const qkv::testing::Scratch folder;
  EventWriter writer(folder / "runs");
  EXPECT_THAT(writer.path().filename().string(), StartsWith("events.out.tfevents."));
  writer.scalar("loss/train", 2.5, 300);
  writer.scalar("loss/train", -0.1, int64_t{1} << 40);
  writer.text("sample", "ein **Haus** \xc3\xa4", 7);
  writer.flush();

  const std::vector<std::string> records = records_of(writer.path());
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(decode(records[0]).bytes[3], "brain.Event:2");

  Fields event = decode(records[1]);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(number_at<double>(event.bytes[1], 0), now.count(), 60);
  EXPECT_EQ(event.integers[2], 300u);
  Fields value = decode(decode(event.bytes[5]).bytes[1]);
  EXPECT_EQ(value.bytes[1], "loss/train");
  EXPECT_EQ(number_at<float>(value.bytes[2], 0), 2.5f);

  event = decode(records[2]);
  EXPECT_EQ(event.integers[2], uint64_t{1} << 40);
  EXPECT_EQ(number_at<float>(decode(decode(event.bytes[5]).bytes[1]).bytes[2], 0), -0.1f);

  value = decode(decode(decode(records[3]).bytes[5]).bytes[1]);
  EXPECT_EQ(value.bytes[1], "sample");
  Fields tensor = decode(value.bytes[8]);
  EXPECT_EQ(tensor.integers[1], 7u);  // DT_STRING
  EXPECT_EQ(tensor.bytes[8], "ein **Haus** \xc3\xa4");
  EXPECT_EQ(decode(decode(value.bytes[9]).bytes[1]).bytes[1], "text");
}

TEST(EventWriter, AResumedRunOpensANewFileAndSaysWhereItStarts) {
  const qkv::testing::Scratch folder;
  EventWriter first(folder.path());
  EventWriter second(folder.path(), 40);
  EXPECT_NE(first.path(), second.path());
  second.flush();
  const std::vector<std::string> records = records_of(second.path());
  ASSERT_EQ(records.size(), 2u);
  Fields event = decode(records[1]);
  EXPECT_EQ(event.integers[2], 40u);
  EXPECT_EQ(decode(event.bytes[7]).integers[1], 1u);  // SessionLog.START
}

TEST(EventWriter, ManyRecordsReachTheFileWithoutFlush) {
  const qkv::testing::Scratch folder;
  std::filesystem::path path;
  {
    EventWriter writer(folder.path());
    path = writer.path();
    for (int step = 0; step < 2000; ++step) writer.scalar("loss", 1.0 / (step + 1), step);
    EXPECT_GT(std::filesystem::file_size(path), 50000u);
  }
  EXPECT_EQ(records_of(path).size(), 2001u);
}

TEST(EventWriter, ErrorsNameTheFile) {
  const qkv::testing::Scratch folder;
  write_file_atomically(folder / "file", "text");
  EXPECT_THROW(EventWriter(folder / "file/runs"), IoError);

  EventWriter writer(folder.path());
  writer.flush();
  // A file size limit simulates a full disk.
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = std::filesystem::file_size(writer.path()) + 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  writer.scalar("loss", 1.0, 1);
  std::string message;
  try {
    writer.flush();
  } catch (const IoError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, HasSubstr(writer.path().string()));

  writer.scalar("loss", 0.5, 2);  // space again: the file continues where it stopped
  writer.flush();
  EXPECT_EQ(records_of(writer.path()).size(), 3u);
}

}  // namespace
}  // namespace qkv::io

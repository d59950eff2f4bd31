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
#include "tests/support/events.h"
#include "tests/support/scratch.h"

namespace qkv::io {
namespace {

using ::qkv::testing::decode;
using ::qkv::testing::Fields;
using ::qkv::testing::number_at;
using ::qkv::testing::records_of;
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

TEST(EventWriter, ResumedRunOpensANewFileWithItsFirstStep) {
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

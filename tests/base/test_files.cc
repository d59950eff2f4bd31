#include "qkv/base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <thread>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace qkv {
namespace {

using testing::message_of;
using testing::Scratch;

size_t files_of(const Scratch& scratch) { return files_in(scratch.path()).size(); }

TEST(AtomicFile, ReplacesOnCommitOnly) {
  const Scratch scratch;
  const auto path = scratch.write("file", "old");
  {
    AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  AtomicFile file(path);
  file.write("new");
  file.commit();
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(files_of(scratch), 1u);
}

// Two objects of one process: each has a temporary file of its own, so that the result is one content or the
// other.
TEST(AtomicFile, KeepsTheAccessRightsOfTheReplacedFile) {
  const testing::Scratch scratch;
  const std::filesystem::path path = scratch.write("secret", "old");
  for (const mode_t mode : {0600, 0660, 0444}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    write_file_atomically(path, "new");
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, mode);
  }
  const mode_t before = ::umask(0002);
  write_file_atomically(scratch / "shared", "new");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat((scratch / "shared").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, mode_t{0664});
}

TEST(Files, APipeInPlaceOfAFileIsAnErrorAtOnce) {
  const testing::Scratch scratch;
  const std::filesystem::path path = scratch / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const std::string& message :
       {message_of<IoError>([&] { read_file(path); }), message_of<IoError>([&] { MappedFile file(path); })})
    EXPECT_EQ(message, concat("cannot read ", path.string(), ": not a regular file"));
}

TEST(AtomicFile, ThreadsMayWriteTheSamePath) {
  const Scratch scratch;
  const auto path = scratch / "file";
  const std::array<std::string, 2> contents{std::string(200'000, 'a'), std::string(300'000, 'b')};
  const auto write_often = [&](const std::string& content) {
    for (int round = 0; round < 40; ++round) {
      AtomicFile file(path);
      for (size_t at = 0; at < content.size(); at += 1000) file.write(content.data() + at, 1000);
      file.commit();
    }
  };
  std::thread other(write_often, contents[1]);
  write_often(contents[0]);
  other.join();
  const std::string found = read_file(path);
  EXPECT_TRUE(found == contents[0] || found == contents[1])
      << found.size() << " bytes, " << found.substr(0, 10);
  EXPECT_EQ(files_of(scratch), 1u);
}

TEST(AtomicFile, WritesToAPipe) {
  const Scratch scratch;
  const auto path = scratch / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string found(5, '?');
  std::thread reader([&] {
    InputFile file(path);
    for (size_t done = 0; done < found.size();) done += file.read(found.data() + done, found.size() - done);
  });
  write_file_atomically(path, "hello");
  reader.join();
  EXPECT_EQ(found, "hello");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_NE(
      message_of<IoError>([] { write_file_atomically("/dev/full", "x"); }).find("/dev/full: No space left"),
      std::string::npos);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

// A limit of bytes in place of a full disk.
TEST(AtomicFile, TellsOfAnUnchangedFileOnlyIfThereIsOne) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const testing::Scratch scratch;
  const std::filesystem::path path = scratch / "file";
  const auto message = [&] {
    const struct rlimit small { .rlim_cur = 10, .rlim_max = before.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string found =
        message_of<IoError>([&] { write_file_atomically(path, std::string(100, 'x')); });
    ::setrlimit(RLIMIT_FSIZE, &before);
    return found;
  };
  EXPECT_EQ(message(), concat("cannot write ", path.string(), ": File too large"));
  scratch.write("file", "old");
  EXPECT_EQ(message(),
            concat("cannot write ", path.string(), ": File too large; the previous content is unchanged"));
  std::signal(SIGXFSZ, handler);
}

TEST(AtomicFile, NamesAMissingFolder) {
  const Scratch scratch;
  const std::string path = (scratch / "missing/file").string();
  EXPECT_EQ(message_of<IoError>([&] { AtomicFile file(path); }),
            "cannot write " + path + ": No such file or directory");
}

TEST(AtomicFile, RemovesTheFilesOfAKilledProcess) {
  const Scratch scratch;
  for (const char* name : {"model.partial-12-0", "model.partial-notes", "model", "x.partial-3"})
    scratch.write(name, "1");
  remove_partial_files(scratch.path());
  EXPECT_EQ(files_in(scratch.path()),
            (std::vector<std::filesystem::path>{scratch / "model", scratch / "model.partial-notes"}));
  remove_partial_files(scratch / "missing");
}

TEST(AtomicFile, RemovesThoseOfOnePathWhoseProcessHasEnded) {
  const Scratch scratch;
  const std::string ended = "999999999";  // above the largest process id
  const std::vector<std::filesystem::path> kept{
      scratch.write("m.gguf.partial-1-0", "1"),
      scratch.write(concat("m.gguf.partial-", ::getpid(), "-3"), "1"),
      scratch.write("m.gguf.partial-notes", "1"), scratch.write(concat("n.gguf.partial-", ended, "-0"), "1")};
  scratch.write(concat("m.gguf.partial-", ended, "-0"), "1");
  remove_partial_files_of(scratch / "m.gguf");
  for (const std::filesystem::path& one : kept) EXPECT_TRUE(std::filesystem::exists(one)) << one;
  EXPECT_EQ(files_in(scratch.path()).size(), kept.size());
}

TEST(InputFile, ReadsInPiecesAndNamesErrors) {
  const Scratch scratch;
  const auto path = scratch.write("file", "abcdefg");
  InputFile file(path);
  std::array<char, 3> piece{};
  std::string all;
  while (const size_t bytes = file.read(piece.data(), piece.size())) all.append(piece.data(), bytes);
  EXPECT_EQ(all, "abcdefg");
  EXPECT_EQ(message_of<IoError>([&] { InputFile(scratch.path()); }),
            "cannot read " + scratch.path().string() + ": it is a folder");
  const std::string missing = (scratch / "missing").string();
  EXPECT_EQ(message_of<IoError>([&] { InputFile{missing}; }),
            "cannot open " + missing + ": No such file or directory");
}

TEST(ScratchFile, ReadsBackItsDataAndHasNoName) {
  const Scratch scratch;
  ScratchFile file(scratch.path());
  std::string written;
  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);
    file.write(number.data(), number.size());
    written += number;
  }
  EXPECT_EQ(files_of(scratch), 0u);
  std::string found;
  std::array<char, 100> piece{};
  while (const size_t bytes = file.read(piece.data(), piece.size())) found.append(piece.data(), bytes);
  EXPECT_EQ(found, written);
  EXPECT_THROW(ScratchFile(scratch / "missing"), IoError);
}

TEST(FolderLock, LocksTheFolderUntilDestroyed) {
  const Scratch one, other;
  std::optional<FolderLock> lock(one.path());
  try {
    const FolderLock second(one.path());
    FAIL() << "the folder was held twice";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(one.path().string()), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(FolderLock(other.path()));
  lock.reset();
  EXPECT_NO_THROW(FolderLock(one.path()));
  EXPECT_THROW(FolderLock(one.path() / "missing"), IoError);
}

}  // namespace
}  // namespace qkv

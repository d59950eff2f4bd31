#include "qkv/hub/blob.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/base/stop.h"
#include "qkv/hub/cache.h"
#include "qkv/hub/digest.h"

namespace qkv::hub {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_io(const char* what, const fs::path& path) {
  throw IoError(concat("cannot ", what, " ", path.string(), ": ", std::generic_category().message(errno)));
}

// The lock of a blob, which huggingface_hub takes too. Other processes' downloads are waited for.
class BlobLock {
 public:
  BlobLock(const HubContext& context, const fs::path& path, const std::string& name) {
    for (bool said = false;;) {
      file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
      if (file_ < 0) fail_io("open", path);
      if (::flock(file_, LOCK_EX | LOCK_NB) == 0) {
        struct stat status {};
        // Some versions of Python's filelock remove the file: then its lock is no longer the one of this
        // name.
        if (::fstat(file_, &status) == 0 && status.st_nlink > 0) return;
      } else if (errno != EWOULDBLOCK) {
        return;  // no locks on this file system; the checksum decides
      } else if (!std::exchange(said, true) && context.say) {
        context.say(concat(name, ": waiting for another process that downloads it"));
      }
      ::close(std::exchange(file_, -1));
      pause_for(std::chrono::milliseconds(100), context.stop);
    }
  }
  ~BlobLock() {
    if (file_ >= 0) ::close(file_);
  }
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  int file_ = -1;
};

// The file CHECKSUM.incomplete, and the digest of what is in it.
class Incomplete {
 public:
  Incomplete(const HubContext& context, fs::path path, const HubFile& file)
      : context_(context), path_(std::move(path)), file_(file) {
    // No link: a blob's content must be its own.
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ < 0) fail_io("open", path_);
    digest_.emplace(file_);
    read_present();
  }
  ~Incomplete() { ::close(descriptor_); }
  Incomplete(const Incomplete&) = delete;
  Incomplete& operator=(const Incomplete&) = delete;

  int64_t bytes() const { return bytes_; }
  bool is_whole() const { return bytes_ == file_.bytes; }

  void restart() {
    if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0)
      fail_io("truncate", path_);
    digest_.emplace(file_);
    bytes_ = 0;
  }

  void append(std::string_view piece) {
    digest_->add(piece);
    bytes_ += std::ssize(piece);
    while (!piece.empty()) {
      const ssize_t written = ::write(descriptor_, piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_io("write", path_);
      piece.remove_prefix(static_cast<size_t>(written));
    }
  }

  // Whether the content is that of the checksum; then it has its name.
  bool finish(const fs::path& blob) {
    if (digest_->value() != file_.checksum) return false;
    if (::fsync(descriptor_) != 0) fail_io("write", path_);
    if (::rename(path_.c_str(), blob.c_str()) != 0) fail_io("rename", path_);
    flush_folder(blob.parent_path());
    return true;
  }

 private:
  void read_present() {
    std::vector<char> piece(size_t{1} << 20);
    while (true) {
      throw_if_stopped(context_.stop);
      const ssize_t count = ::read(descriptor_, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_io("read", path_);
      if (count == 0) break;
      bytes_ += count;
      if (bytes_ > file_.bytes) return restart();
      digest_->add({piece.data(), static_cast<size_t>(count)});
    }
  }

  const HubContext& context_;
  fs::path path_;
  const HubFile& file_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
  std::optional<Digest> digest_;
};

// Compares what an answer announces with what is expected, before gigabytes arrive.
void check_head(const Answer& answer, const HubFile& file, Incomplete& incomplete) {
  const auto refuse = [&](const std::string& what, const std::string& expected, const std::string& found) {
    throw Failure(
        concat(answer.url.origin(), ": ", file.path, ": ", what, ": expected ", expected, ", found ", found),
        /*is_transient=*/false);
  };
  const auto require = [&](const char* field, const std::string& expected) {
    const std::string found = answer.field(field);
    if (!found.empty() && found != expected) refuse(field, expected, found.substr(0, 100));
  };
  if (answer.is_good() || answer.is_redirect()) {
    require("x-linked-size", std::to_string(file.bytes));
    if (file.has_sha256()) require("x-linked-etag", "\"" + file.checksum + "\"");
  }
  if (!answer.is_good()) return;
  require("content-encoding", "identity");
  if (answer.status == 200 && incomplete.bytes() > 0)
    incomplete.restart();  // all of it, whatever was asked for
  if (answer.status == 206) {
    const std::string expected = concat("bytes ", incomplete.bytes(), "-", file.bytes - 1, "/", file.bytes);
    if (answer.field("content-range") != expected)
      refuse("content-range", expected, answer.field("content-range").substr(0, 100));
  }
  require("content-length", std::to_string(file.bytes - incomplete.bytes()));
}

}  // namespace

void fetch_blob(const HubContext& context, HubClient& client, const std::string& id,
                const std::string& commit, const HubFile& file, const OnBytes& on_bytes) {
  const std::string repository = repository_folder_name(id);
  const fs::path locks = context.settings.cache / ".locks" / repository;
  const fs::path blobs = context.settings.cache / repository / "blobs", blob = blobs / file.checksum;
  with_io_errors([&] {
    fs::create_directories(locks);
    fs::create_directories(blobs);
  });
  const BlobLock lock(context, locks / (file.checksum + ".lock"), file.path);
  std::error_code ignored;
  if (fs::is_regular_file(blob, ignored) &&
      fs::file_size(blob, ignored) == static_cast<uintmax_t>(file.bytes))
    return on_bytes(file.bytes);

  Incomplete incomplete(context, blobs / (file.checksum + ".incomplete"), file);
  on_bytes(incomplete.bytes());
  Patience patience(context);
  int64_t furthest = incomplete.bytes();
  for (int wrong = 0;;) {
    try {
      if (!incomplete.is_whole()) {
        client.get_file(commit, file, incomplete.bytes(),
                        {.head = [&](const Answer& answer) { check_head(answer, file, incomplete); },
                         .body =
                             [&](std::string_view piece) {
                               if (incomplete.bytes() + std::ssize(piece) > file.bytes) {
                                 throw Failure(
                                     concat(file.path, ": expected ", file.bytes, " bytes, found more"),
                                     /*is_transient=*/false);
                               }
                               incomplete.append(piece);
                               on_bytes(incomplete.bytes());
                             }});
      }
      if (!incomplete.is_whole()) {
        throw Failure(concat(file.path, ": ended after ", incomplete.bytes(), " of ", file.bytes, " bytes"),
                      /*is_transient=*/true);
      }
      if (incomplete.finish(blob)) return;
      incomplete.restart();
      if (++wrong == 2) {
        throw DataError(concat(file.path, ": expected the ", file.has_sha256() ? "SHA-256 " : "git checksum ",
                               file.checksum,
                               ", found another, twice; the server or a proxy changes the file"));
      }
      if (context.say) context.say(file.path + ": the checksum is wrong; it is downloaded again");
    } catch (const Failure& failure) {
      if (incomplete.bytes() > furthest) patience.progress();
      furthest = std::max(furthest, incomplete.bytes());
      patience.after(failure);
    }
  }
}

}  // namespace qkv::hub

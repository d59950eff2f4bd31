#include "qkv/hub/pull.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/stop.h"
#include "qkv/hub/blob.h"
#include "qkv/hub/choice.h"

namespace qkv::hub {
namespace {

namespace fs = std::filesystem;

// Files from this size on arrive side by side, because servers limit the rate of a connection. Smaller ones
// share a connection.
constexpr int64_t kLargeFile = int64_t{1} << 20;
constexpr size_t kAtOnce = 4;

bool is_there(const fs::path& path, int64_t bytes) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && fs::file_size(path, ignored) == static_cast<uintmax_t>(bytes);
}

// A relative link from the snapshot to the blob; on file systems without links the blob itself.
void link_blob(const fs::path& blob, const fs::path& path) {
  fs::create_directories(path.parent_path());
  fs::remove(path);
  std::error_code error;
  fs::create_symlink(fs::relative(blob.parent_path(), path.parent_path()) / blob.filename(), path, error);
  if (error == std::errc::file_exists) return;  // by another process
  if (error == std::errc::operation_not_permitted || error == std::errc::operation_not_supported ||
      error == std::errc::function_not_supported) {
    return fs::rename(blob, path);
  }
  if (error) throw fs::filesystem_error("link", path, error);
}

void require_space(const fs::path& cache, int64_t needed) {
  if (needed <= 0) return;
  std::error_code unknown;
  const fs::space_info space = fs::space(cache, unknown);
  if (unknown || space.capacity == 0 || space.available >= static_cast<uintmax_t>(needed)) return;
  throw IoError(concat(cache.string(), ": expected ", needed, " free bytes, found ", space.available,
                       "; HF_HUB_CACHE names another place"));
}

// Backups leave out folders with this file (bford.info/cachedir).
void mark_cache(const fs::path& cache) {
  const fs::path tag = cache / "CACHEDIR.TAG";
  if (!fs::exists(tag)) write_file_atomically(tag, "Signature: 8a477f597d28d172789f06886806bc55\n");
}

void write_ref(const fs::path& repository, const std::string& revision, const std::string& commit) {
  if (revision == commit) return;
  const fs::path ref = repository / "refs" / revision;
  if (fs::is_regular_file(ref) && read_file(ref) == commit) return;
  fs::create_directories(ref.parent_path());
  write_file_atomically(ref, commit);
}

std::string patterns_text(const PullOptions& options) {
  std::string text;
  for (const std::string& pattern : options.include) text += " " + pattern;
  return options.include.empty() ? " configurations, tokenizers and safetensors" : text;
}

PullResult pull_offline(const PullOptions& options) {
  const auto snapshot = cached_snapshot(options.settings.cache, options.model);
  if (!snapshot) {
    throw IoError(concat("HF_HUB_OFFLINE is set, and ", options.model.text(), " is not in the cache ",
                         options.settings.cache.string()));
  }
  return {.folder = *snapshot, .commit = snapshot->filename().string(), .files = {}, .skipped = {}};
}

class Pull {
 public:
  explicit Pull(const PullOptions& options)
      : options_(options),
        context_{options.settings, options.stop, [this](const std::string& message) { say(message); }},
        client_(context_, options.model.id, options.model.revision),
        repository_(options.settings.cache / repository_folder_name(options.model.id)) {}

  PullResult run() {
    const std::string& revision = options_.model.revision;
    result_.commit = is_hexadecimal(revision, 40) ? revision : client_.commit();
    Choice choice = choose(client_.files(result_.commit), options_.include, options_.exclude);
    result_.files = std::move(choice.taken);
    result_.skipped = std::move(choice.skipped);
    if (result_.files.empty()) {
      throw UsageError(concat(options_.model.text(), ": expected files that match", patterns_text(options_),
                              ", found ", result_.skipped.size(), " other files"));
    }
    result_.folder = repository_ / "snapshots" / result_.commit;
    progress_.expected_bytes = total(result_.files);
    with_io_errors([&] { fetch_all(); });
    return std::move(result_);
  }

 private:
  static int64_t total(const std::vector<HubFile>& files) {
    return std::accumulate(files.begin(), files.end(), int64_t{0},
                           [](int64_t sum, const HubFile& file) { return sum + file.bytes; });
  }

  void fetch_all() {
    std::vector<HubFile> missing;
    for (const HubFile& file : result_.files) {
      if (is_there(result_.folder / file.path, file.bytes)) {
        progress_.bytes += file.bytes;
      } else {
        missing.push_back(file);
      }
    }
    if (!missing.empty()) {
      fs::create_directories(options_.settings.cache);
      mark_cache(options_.settings.cache);
      require_space(options_.settings.cache, needed(missing));
    }
    const auto large =
        std::ranges::find_if(missing, [](const HubFile& file) { return file.bytes >= kLargeFile; });
    for (auto file = missing.begin(); file != large; ++file) fetch(context_, client_, *file);
    if (large != missing.end()) fetch_side_by_side({large, missing.end()});
    write_ref(repository_, options_.model.revision, result_.commit);
  }

  // The bytes of files that are neither there nor begun.
  int64_t needed(const std::vector<HubFile>& files) const {
    int64_t bytes = total(files);
    std::error_code ignored;
    for (const HubFile& file : files) {
      const fs::path blob = repository_ / "blobs" / file.checksum;
      for (const fs::path& path : {blob, fs::path(blob.string() + ".incomplete")})
        if (fs::is_regular_file(path, ignored)) bytes -= static_cast<int64_t>(fs::file_size(path, ignored));
    }
    return bytes;
  }

  // Each on a connection of its own. A failure of one, or a request to stop, ends all.
  void fetch_side_by_side(std::span<const HubFile> files) {
    std::atomic<bool> ended = false;
    std::exception_ptr failure;  // the first
    std::mutex mutex;
    std::condition_variable changed;
    size_t next = 0, running = 0;
    const HubContext context{options_.settings, &ended, context_.say};
    const auto work = [&] {
      std::unique_lock lock(mutex);
      try {
        HubClient client(context, options_.model.id, options_.model.revision);
        while (next < files.size() && !ended) {
          const HubFile& file = files[next++];
          lock.unlock();
          fetch(context, client, file);
          lock.lock();
        }
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!failure) failure = std::current_exception();
        ended = true;
      }
      --running;
      changed.notify_all();
    };
    std::vector<std::thread> threads;
    std::unique_lock lock(mutex);
    try {
      while (threads.size() < std::min(kAtOnce, files.size())) {
        threads.emplace_back(work);
        ++running;
      }
    } catch (const std::system_error&) {
      if (threads.empty())
        throw IoError("threads: expected one for downloads, found none that the system allows");
    }
    while (running > 0) {
      changed.wait_for(lock, std::chrono::milliseconds(20));
      if (options_.stop && *options_.stop) ended = true;
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    throw_if_stopped(options_.stop);
  }

  void fetch(const HubContext& context, HubClient& client, const HubFile& file) {
    std::optional<int64_t> begun;
    int64_t shown = 0;
    fetch_blob(context, client, options_.model.id, result_.commit, file, [&](int64_t bytes) {
      const std::lock_guard lock(report_);
      if (!begun) begun = bytes;
      progress_.file = file.path;
      progress_.bytes += bytes - std::exchange(shown, bytes);
      if (options_.on_progress) options_.on_progress(progress_);
    });
    link_blob(repository_ / "blobs" / file.checksum, result_.folder / file.path);
    const std::lock_guard lock(report_);
    result_.downloaded_bytes += file.bytes - begun.value_or(0);
  }

  void say(const std::string& message) {
    const std::lock_guard lock(report_);
    if (options_.on_message) options_.on_message(message);
  }

  const PullOptions& options_;
  HubContext context_;
  HubClient client_;
  fs::path repository_;
  std::mutex report_;  // of progress, messages and the result
  PullProgress progress_;
  PullResult result_;
};

}  // namespace

PullResult pull(const PullOptions& options) {
  if (options.settings.offline) return pull_offline(options);
  return Pull(options).run();
}

}  // namespace qkv::hub

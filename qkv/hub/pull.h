#pragma once
// Downloads a model from the hub into the cache.

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "qkv/hub/cache.h"
#include "qkv/hub/listing.h"
#include "qkv/hub/settings.h"

namespace qkv::hub {

struct PullProgress {
  std::string file;            // under way
  int64_t bytes = 0;           // of all files, that are there
  int64_t expected_bytes = 0;  // of all files
};

struct PullOptions {
  ModelName model;
  // Patterns of the shell for paths (choice.h). None in `include`: the files that qkv opens.
  std::vector<std::string> include = {}, exclude = {};
  HubSettings settings = {};
  const std::atomic<bool>* stop = nullptr;                    // throws Stopped; another pull resumes
  std::function<void(const PullProgress&)> on_progress = {};  // often
  std::function<void(const std::string&)> on_message = {};    // an attempt that is repeated, a wait
};

struct PullResult {
  std::filesystem::path folder;  // a model folder, in the cache
  std::string commit;            // of 40 digits
  std::vector<HubFile> files, skipped;
  int64_t downloaded_bytes = 0;
};

// Downloads what is not in the cache, and returns the folder. It resumes what another pull began; a file gets
// its name once its checksum is right, and the revision refers to the commit once all files are there.
// Offline, the folder in the cache. Throws UsageError for patterns that match nothing, IoError for a server
// or a disk, DataError for answers that are wrong, Stopped.
PullResult pull(const PullOptions& options);

}  // namespace qkv::hub

#include "qkv/base/mapped_files.h"

#include <sys/stat.h>

#include <map>
#include <mutex>

namespace qkv {
namespace {

struct MappedFiles {
  std::mutex mutex;
  std::map<uint64_t, MappedFileState> states;
  uint64_t next = 1;
};

// Never destroyed: static tensors may hold mappings until the process ends.
MappedFiles& all_mapped_files() {
  static auto* instance = new MappedFiles;
  return *instance;
}

}  // namespace

std::vector<MappedFileState> mapped_files() {
  MappedFiles& files = all_mapped_files();
  const std::lock_guard lock(files.mutex);
  std::vector<MappedFileState> states;
  for (const auto& [id, state] : files.states) states.push_back(state);
  return states;
}

bool changed_in_place(const MappedFileState& file) {
  struct stat now {};
  if (::stat(file.path.c_str(), &now) != 0) return false;
  if (now.st_dev != file.device || now.st_ino != file.inode) return false;
  return now.st_size != file.size || now.st_mtim.tv_sec != file.modified.tv_sec ||
         now.st_mtim.tv_nsec != file.modified.tv_nsec;
}

uint64_t add_mapped_file(const std::filesystem::path& path, int descriptor) {
  struct stat now {};
  ::fstat(descriptor, &now);
  MappedFiles& files = all_mapped_files();
  const std::lock_guard lock(files.mutex);
  const uint64_t id = files.next++;
  files.states[id] = {.id = id,
                      .path = std::filesystem::absolute(path),
                      .device = now.st_dev,
                      .inode = now.st_ino,
                      .size = now.st_size,
                      .modified = now.st_mtim};
  return id;
}

void remove_mapped_file(uint64_t id) noexcept {
  MappedFiles& files = all_mapped_files();
  const std::lock_guard lock(files.mutex);
  files.states.erase(id);
}

}  // namespace qkv

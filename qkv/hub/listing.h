#pragma once
// What the hub's API answers about the files of a model. The answers are untrusted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::hub {

struct HubFile {
  std::string path;  // in the model's folder, with '/' between its parts; safe (is_safe_path)
  int64_t bytes = 0;
  // Of the content: its SHA-256 (files of Git LFS), or the SHA-1 of git's blob. Also the blob's name in the
  // cache.
  std::string checksum = {};

  bool has_sha256() const { return checksum.size() == 64; }
};

// The commit in the answer of /api/models/ID/revision/REVISION. Throws DataError beginning with `name`, as
// does the next.
std::string read_commit(std::string_view json, const std::string& name);

// The files in one page of /api/models/ID/tree/COMMIT?recursive=true. Throws DataError for a name that leaves
// the folder.
std::vector<HubFile> read_tree(std::string_view json, const std::string& name);

// The address of the next page, from a header field Link (RFC 8288).
std::optional<std::string> next_page(std::string_view link);

}  // namespace qkv::hub

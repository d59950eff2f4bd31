#pragma once
// The cache of downloaded models, in the layout of huggingface_hub: each finds what the other downloaded.
//
//   models--ORG--NAME/refs/main          the commit of a branch or tag
//   models--ORG--NAME/snapshots/COMMIT/  a model folder, of relative links to
//   models--ORG--NAME/blobs/CHECKSUM     the contents of files
//   .locks/models--ORG--NAME/            a lock for each blob

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::hub {

inline constexpr const char* kDefaultRevision = "main";

// A model of the hub, written "ORG/NAME" or "NAME", and "@REVISION" behind it.
struct ModelName {
  std::string id;
  std::string revision = kDefaultRevision;  // a branch, a tag or a commit

  std::string text() const { return revision == kDefaultRevision ? id : id + "@" + revision; }
};

// Nothing if the text cannot be such a name.
std::optional<ModelName> parse_model_name(std::string_view text);

// Whether a path of the hub, with '/' between its parts, stays in the folder in which it is created: no empty
// part, ".", "..", backslash or control character.
bool is_safe_path(std::string_view path);

// Whether a text has this many hexadecimal digits, in lower case: 40 of a commit or SHA-1, 64 of a SHA-256.
bool is_hexadecimal(std::string_view text, size_t digits);

// models--ORG--NAME
std::string repository_folder_name(const std::string& id);

// The snapshot of the revision, if it is there.
std::optional<std::filesystem::path> cached_snapshot(const std::filesystem::path& cache,
                                                     const ModelName& name);

// The folder of a model that a user named: `text` itself if it exists, or cannot be a name of the hub;
// otherwise the snapshot in the cache, or a file in it, "ORG/NAME/FILE.gguf". Nothing is downloaded. Throws
// IoError if there is none, with the command that downloads it.
std::string model_folder(const std::string& text);

}  // namespace qkv::hub

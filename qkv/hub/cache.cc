#include "qkv/hub/cache.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/hub/settings.h"

namespace qkv::hub {
namespace {

constexpr size_t kMostIdBytes = 96;

// The rules of huggingface_hub's validate_repo_id.
bool is_id(std::string_view id) {
  if (id.empty() || id.size() > kMostIdBytes || id.ends_with(".git")) return false;
  if (id.find("--") != id.npos || id.find("..") != id.npos || std::ranges::count(id, '/') > 1) return false;
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const auto is_part = [&](std::string_view part) {
    return !part.empty() && is_word(part.front()) && is_word(part.back()) &&
           std::ranges::all_of(part, [&](char c) { return is_word(c) || c == '-' || c == '.'; });
  };
  const size_t slash = id.find('/');
  return is_part(id.substr(0, slash)) && (slash == id.npos || is_part(id.substr(slash + 1)));
}

// The branches and tags that are in the cache: " (there: v1, v2)".
std::string other_revisions(const std::filesystem::path& refs) {
  std::string found;
  std::error_code ignored;
  for (std::filesystem::recursive_directory_iterator file(refs, ignored), end; file != end;
       file.increment(ignored)) {
    if (ignored) break;
    if (!file->is_regular_file(ignored)) continue;
    found += concat(found.empty() ? " (there: " : ", ", file->path().lexically_relative(refs).string());
  }
  return found.empty() ? found : found + ")";
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  if (std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '\\'; }))
    return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_hexadecimal(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::optional<ModelName> parse_model_name(std::string_view text) {
  const size_t at = text.find('@');
  ModelName name{.id = std::string(text.substr(0, at))};
  if (at != text.npos) name.revision = text.substr(at + 1);
  if (!is_id(name.id) || !is_safe_path(name.revision)) return std::nullopt;
  return name;
}

std::string repository_folder_name(const std::string& id) {
  std::string name = "models--" + id;
  if (const size_t slash = name.find('/'); slash != name.npos) name.replace(slash, 1, "--");
  return name;
}

std::optional<std::filesystem::path> cached_snapshot(const std::filesystem::path& cache,
                                                     const ModelName& name) {
  const std::filesystem::path repository = cache / repository_folder_name(name.id);
  std::error_code ignored;
  std::string commit = name.revision;
  if (const std::filesystem::path ref = repository / "refs" / name.revision;
      std::filesystem::is_regular_file(ref, ignored)) {
    commit = read_file(ref);
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back()))) commit.pop_back();
    if (!is_hexadecimal(commit, 40))
      throw DataError(concat(ref.string(), ": expected a commit of 40 digits"));
  }
  if (!is_hexadecimal(commit, 40)) return std::nullopt;
  std::filesystem::path snapshot = repository / "snapshots" / commit;
  if (!std::filesystem::is_directory(snapshot, ignored)) return std::nullopt;
  return snapshot;
}

std::string model_folder(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return text;
  const std::filesystem::path cache = cache_folder();
  const std::optional<ModelName> name = parse_model_name(text);
  if (!name) {
    const size_t slash = text.find('/', text.find('/') + 1);
    const std::optional<ModelName> model = parse_model_name(text.substr(0, slash));
    if (!model || slash == text.npos || !is_safe_path(text.substr(slash + 1))) return text;
    const auto snapshot = cached_snapshot(cache, *model);
    const std::filesystem::path file = snapshot ? *snapshot / text.substr(slash + 1) : "";
    return std::filesystem::exists(file, ignored) ? file.string() : text;
  }
  if (const auto snapshot = cached_snapshot(cache, *name)) return snapshot->string();
  std::string pull = "qkv pull " + name->id;
  if (name->revision != kDefaultRevision) pull += " --revision " + name->revision;
  throw IoError(concat("model ", text, ": there is no such folder, and none in the cache ", cache.string(),
                       other_revisions(cache / repository_folder_name(name->id) / "refs"), "; ", pull,
                       " downloads it"));
}

}  // namespace qkv::hub

#include "qkv/models/gguf/gguf_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <span>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/models/gguf/gguf_architecture.h"
#include "qkv/models/hub/weight_map.h"

namespace qkv::models {

namespace {

// Computed from the metadata, or compared with them (gguf_config.cc).
constexpr std::string_view kRotaryFactors = "rope_f";  // rope_freqs, rope_factors_long, rope_factors_short

// "blk.#.attn_q" and "11" of "blk.11.attn_q".
std::pair<std::string, std::string> pattern_of(std::string_view module) {
  constexpr std::string_view kBlock = "blk.";
  if (!module.starts_with(kBlock)) return {std::string(module), ""};
  const size_t end = std::min(module.find('.', kBlock.size()), module.size());
  return {concat(kBlock, '#', module.substr(end)),
          std::string(module.substr(kBlock.size(), end - kBlock.size()))};
}

}  // namespace

std::vector<std::filesystem::path> files_of_gguf(const std::filesystem::path& path) {
  const std::string name = path.stem().string();
  constexpr size_t kEnding = 15;  // "-00001-of-00003"
  if (name.size() < kEnding) return {path};
  const std::string_view ending_of_name = std::string_view(name).substr(name.size() - kEnding);
  const auto number_at = [&](size_t at) {  // of five digits; 0 for other texts
    int number = 0;
    const char* const from = ending_of_name.data() + at;
    const auto [end, error] = std::from_chars(from, from + 5, number);
    return error == std::errc() && end == from + 5 ? number : 0;
  };
  const int part = number_at(1), parts = number_at(10);
  if (ending_of_name[0] != '-' || ending_of_name.substr(6, 4) != "-of-" || part < 1 || part > parts)
    return {path};
  std::vector<std::filesystem::path> all;
  for (int i = 1; i <= parts; ++i) {
    std::array<char, 64> ending;
    std::snprintf(ending.data(), ending.size(), "-%05d-of-%05d", i, parts);
    all.push_back(path.parent_path() / concat(name.substr(0, name.size() - kEnding), ending.data(), ".gguf"));
  }
  return all;
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, ignored);
}

namespace {

const GgufArchitecture& architecture_of(const io::GgufFile& file) {
  constexpr std::string_view kKey = "general.architecture";
  const std::span<const GgufArchitecture> all = gguf_architectures();
  const std::string_view name = file.text(kKey).value_or("");
  const auto found = std::ranges::find(all, name, &GgufArchitecture::name);
  if (found != all.end()) return *found;
  std::string known;
  for (const GgufArchitecture& one : all) known += concat(known.empty() ? "" : ", ", one.name);
  file.reject(kKey, concat("one of ", known));
}

}  // namespace

std::string GgufModel::own_name(const GgufArchitecture& architecture, std::string_view name) {
  // The layer's number is the only number between dots.
  std::string pattern(name), layer;
  for (size_t at = 0; at < pattern.size() && layer.empty(); at = pattern.find('.', at + 1)) {
    const size_t begin = at + 1, end = std::min(pattern.find('.', begin), pattern.size());
    layer = pattern.substr(begin, end - begin);
    if (layer.find_first_not_of("0123456789") == std::string::npos && !layer.empty()) {
      pattern.replace(begin, end - begin, "#");
    } else {
      layer.clear();
    }
  }
  const size_t dot = pattern.rfind('.');
  const auto module = std::ranges::find(architecture.modules, pattern.substr(0, dot), &GgufModule::second);
  if (module == architecture.modules.end()) return "";
  std::string own(module->first);
  if (const size_t number = own.find('#'); number != std::string::npos) own.replace(number, 1, layer);
  return own + pattern.substr(dot);
}

GgufModel::GgufModel(const std::filesystem::path& path) {
  const std::vector<std::filesystem::path> paths = files_of_gguf(path);
  std::error_code unreadable;
  for (const std::filesystem::path& part : paths) {
    if (part != path && !std::filesystem::exists(part, unreadable))
      throw IoError(concat(part.string(), ": expected this file, as ", path.filename().string(),
                           " is a part of a model, found none"));
    parts_.emplace_back(part);
  }
  name_tensors();
}

GgufModel::GgufModel(io::GgufFile file) {
  parts_.push_back(std::move(file));
  name_tensors();
}

void GgufModel::name_tensors() {
  architecture_ = &architecture_of(file());
  require_whole();
  for (const io::GgufFile& part : parts_) {
    for (const std::string& name : part.names()) {
      const size_t dot = name.rfind('.');
      const auto [pattern, layer] = pattern_of(std::string_view(name).substr(0, dot));
      const auto module = std::ranges::find(architecture_->modules, pattern, &GgufModule::first);
      std::string theirs = name;  // unknown ones keep their names, and messages name them
      if (module != architecture_->modules.end()) {
        theirs = module->second;
        if (const size_t number = theirs.find('#'); number != std::string::npos)
          theirs.replace(number, 1, layer);
        theirs += name.substr(dot);
      }
      const io::GgufFile::Entry& entry = part.entry(name);
      if (!tensors_.emplace(theirs, Stored{&part, &entry, std::string(entry.type), name}).second)
        throw DataError(
            concat(part.path().string(), ": ", name, ": expected one tensor in all parts, found several"));
    }
  }
}

// llama.cpp's gguf-split numbers the parts, and notes how many tensors they have together.
void GgufModel::require_whole() const {
  const int64_t count = std::ssize(parts_);
  int64_t tensors = 0;
  for (int64_t i = 0; i < count; ++i) {
    const io::GgufFile& part = parts_[static_cast<size_t>(i)];
    const std::string called = concat("as the file is called ", part.path().filename().string());
    if (std::max<int64_t>(part.integer("split.count").value_or(1), 1) != count)
      part.reject("split.count", concat(count, ", ", called));
    if (part.integer("split.no").value_or(0) != i) part.reject("split.no", concat(i, ", ", called));
    if (part.has("general.architecture") && part.text("general.architecture") != architecture_->name)
      part.reject("general.architecture", concat('"', architecture_->name, "\", that of the first part"));
    tensors += std::ssize(part.names());
  }
  if (count > 1 && file().integer("split.tensors.count").value_or(tensors) != tensors)
    file().reject("split.tensors.count", concat(tensors, ", which the ", count, " parts have"));
}

std::vector<std::string> GgufModel::names() const {
  std::vector<std::string> names;
  for (const auto& [name, stored] : tensors_) {
    if (!name.starts_with(kRotaryFactors)) names.push_back(name);
  }
  return names;
}

const GgufModel::Stored& GgufModel::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw DataError(
        concat(path().string(), ": expected a tensor ", name, ", found ", tensors_.size(), " others"));
  return found->second;
}

Tensor GgufModel::as_stored(const std::string& name, const Shape& expected) const {
  const auto& [file, entry, type, own_name] = tensor(name);
  const std::string where = concat(file->path().string(), ": ", own_name);
  if (!entry->dtype)
    throw DataError(
        concat(where, ": expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K or IQ4_NL, ",
               "found ", type));
  if (entry->shape != expected)
    throw DataError(concat(where, ": expected shape ", expected, ", found ", entry->shape));
  // Read-only, whatever the caller may do with a copy of the handle.
  auto* const bytes =
      const_cast<std::byte*>(entry->bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  Tensor stored = Tensor::wrap(Storage(file->mapping(), bytes), expected, *entry->dtype).as_read_only(where);
  const bool query = name.ends_with("q_proj.weight") || name.ends_with("q_proj.bias");
  const bool key_rows = name.ends_with("k_proj.weight") || name.ends_with("k_proj.bias");
  if (architecture_->paired && (query || key_rows)) {
    GgufMetadata metadata(this->file());
    int64_t rows = metadata.count("attention.head_count");
    if (key_rows) rows = metadata.count("attention.head_count_kv", rows);
    if (expected[0] % (2 * rows) != 0)
      throw DataError(concat(where, ": expected ", rows, " heads of an even width, found shape ", expected));
    const WeightRule rule{
        .ours = name, .theirs = name, .paired = {.heads = rows, .rotated = expected[0] / rows}};
    stored = own_rows(stored, expected[0], rule);
  }
  return stored;
}

std::string GgufModel::key(std::string_view name) const { return concat(architecture_->name, '.', name); }

}  // namespace qkv::models

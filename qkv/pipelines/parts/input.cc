#include "qkv/pipelines/parts/input.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/pipelines/parts/content_hash.h"

namespace qkv::pipelines {

namespace fs = std::filesystem;

namespace {

uint64_t hash_of(const LineChunk& chunk) {
  Hash64 hash;
  for (const auto* list : {&chunk.texts, &chunk.errors}) {
    hash.add(list->size());
    for (const std::string& text : *list) {
      hash.add(text.size());
      hash.add(text);
    }
  }
  return hash.value();
}

}  // namespace

PartInput::PartInput(std::filesystem::path path, const LineOptions& options)
    : path_(std::move(path)), options_(options) {
  std::error_code ignored;
  if (fs::exists(path_) && !fs::is_regular_file(path_, ignored))
    throw IoError(concat("cannot read ", path_.string(), ": not a regular file"));
  in_.open(path_, std::ios::binary);
  if (!in_)
    throw IoError(concat("cannot open ", path_.string(), ": ", std::generic_category().message(errno)));
  if (in_.get() == 0x1f && in_.get() == 0x8b)
    throw UsageError(concat(path_.string(), ": expected a text, found a file compressed by gzip"));
  in_.clear();
  in_.seekg(0);
  LineReader reader(in_, options_);
  Hash64 all;
  LineChunk chunk;
  for (std::streamoff at = 0; reader.next(chunk); at = in_.eof() ? 0 : std::streamoff(in_.tellg())) {
    parts_.push_back({at, chunk.first, std::ssize(chunk.errors), hash_of(chunk)});
    all.add(parts_.back().hash);
  }
  hash_ = hash_text(all.value());
}

LineChunk PartInput::read(size_t part) {
  in_.clear();
  in_.seekg(parts_[part].offset);
  LineOptions options = options_;
  options.first = parts_[part].first;
  LineChunk chunk;
  LineReader(in_, options).next(chunk);
  if (hash_of(chunk) != parts_[part].hash)
    throw IoError(concat(path_.string(), ": has changed since the start"));
  return chunk;
}

}  // namespace qkv::pipelines

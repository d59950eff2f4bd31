#pragma once
// Text under normalization, with the position of each byte in the input.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/utf8.h"

namespace qkv::text {

// Byte range [begin, end).
struct Range {
  uint32_t begin = 0, end = 0;

  uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(Range, Range) = default;
};

// One character of a changed text: count 0 replaces the next old character, 1 inserts, -n replaces the next
// old character and removes the n after it.
struct Change {
  char32_t character = 0;
  int32_t count = 0;
};

// The maximum number of bytes that a tokenizer's steps may produce from some bytes. A few consecutive
// replacements can multiply a text without bound; those of real tokenizers produce at most 30 bytes from one.
// Below 2^32, like positions.
constexpr size_t most_bytes_of(size_t bytes) {
  constexpr size_t kFactor = 64, kAlways = 1024, kMost = UINT32_MAX;
  return bytes < (kMost - kAlways) / kFactor ? kFactor * bytes + kAlways : kMost;
}

// Throws DataError if there are more bytes than a tokenizer's steps may produce.
void require_few_bytes(size_t found, size_t most);

// Modifying functions throw DataError if the text would exceed most_bytes_of() its original bytes.
class NormalizedString {
 public:
  NormalizedString() = default;
  // The part of the whole text that starts at byte `begin`; valid UTF-8.
  NormalizedString(std::string_view source, uint32_t begin)
      : text_(source), begin_(begin), most_bytes_(most_bytes_of(source.size())) {}

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }

  // The origin in the whole text of bytes [begin, end) of text(); always whole characters. (For an empty
  // range: the start of the next byte's origin.)
  Range source(Range part) const;

  // A part as a new string.
  NormalizedString slice(Range part) const;

  // Replaces the whole text. The first `removed` old characters are removed. An inserted character has the
  // origin of the one before it (the first: the empty range at the beginning).
  void transform(std::span<const Change> changes, size_t removed = 0);

  // Keeps only the characters that satisfy a predicate.
  template <class Keep>
  void filter(Keep keep);

  // For replacing characters by others of equal byte length.
  char* bytes() { return text_.data(); }

  // Builds a new text from parts of this one and insertions, for replace().
  class Writer {
   public:
    explicit Writer(const NormalizedString& from) : from_(from) {}
    uint32_t size() const { return static_cast<uint32_t>(text_.size()); }
    void keep(Range part);                              // unchanged bytes of the old text
    void put(std::string_view characters, Range from);  // from: in the whole text

   private:
    friend class NormalizedString;
    const NormalizedString& from_;
    std::string text_;
    std::vector<Range> sources_;
  };
  void replace(Writer& writer);

 private:
  Range source_of_byte(size_t at) const;

  std::string text_;
  std::vector<Range> sources_;  // origin of each byte of text_; empty: identity
  uint32_t begin_ = 0;
  size_t most_bytes_ = most_bytes_of(0);
};

template <class Keep>
void NormalizedString::filter(Keep keep) {
  Writer writer(*this);
  uint32_t kept_from = 0;
  for (size_t at = 0; at < text_.size();) {
    const size_t begin = at;
    if (keep(next_character(text_, at))) continue;
    writer.keep({kept_from, static_cast<uint32_t>(begin)});
    kept_from = static_cast<uint32_t>(at);
  }
  if (kept_from == 0) return;  // nothing was removed
  writer.keep({kept_from, static_cast<uint32_t>(text_.size())});
  replace(writer);
}

}  // namespace qkv::text

#pragma once
// Text under way from what was given to what a model reads, that remembers where each of its bytes came from.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/utf8.h"

namespace qkv::text {

// Bytes [begin, end) of some text.
struct Range {
  uint32_t begin = 0, end = 0;

  uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(Range, Range) = default;
};

// One character of a changed text, and what becomes of the old one: 0 = it takes the place of the next old
// character, 1 = it is new, -n = it takes the place of the next old one, and the n behind that are gone.
struct Change {
  char32_t character = 0;
  int32_t count = 0;
};

class NormalizedString {
 public:
  NormalizedString() = default;
  // The bytes that begin at `begin` in the whole text; valid UTF-8.
  NormalizedString(std::string_view source, uint32_t begin) : text_(source), begin_(begin) {}

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }

  // Where in the whole text bytes [begin, end) of text() came from, which is never half a character. (Of no
  // bytes: where those behind came from begins.)
  Range source(Range part) const;

  // A part of it, for itself.
  NormalizedString slice(Range part) const;

  // Replaces the whole text. The first `removed` old characters are gone; a new character came from where the
  // one before it did (the first: from the beginning, where there is nothing).
  void transform(std::span<const Change> changes, size_t removed = 0);

  // Keeps the characters that a predicate holds for.
  template <class Keep>
  void filter(Keep keep);

  // Characters for which others of the same number of bytes can be put in place.
  char* bytes() { return text_.data(); }

  // A new text is put together from parts of this one and what comes between them; then it replaces this one.
  class Writer {
   public:
    explicit Writer(const NormalizedString& from) : from_(from) {}
    uint32_t size() const { return static_cast<uint32_t>(text_.size()); }
    void keep(Range part);                              // bytes of the old text, as they were
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
  std::vector<Range> sources_;  // of each byte of text_; empty: each character came from itself
  uint32_t begin_ = 0;
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
  if (kept_from == 0) return;  // everything stays
  writer.keep({kept_from, static_cast<uint32_t>(text_.size())});
  replace(writer);
}

}  // namespace qkv::text

#pragma once
// What tokenizers ask about characters. The answers are utf8proc's tables (Unicode 15 in Debian 12).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// The character that begins at text[at], of valid UTF-8; `at` moves behind it.
inline char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return text[at++];
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t character = lead & (0x3Fu >> more);
  for (int i = 1; i <= more; ++i) character = (character << 6) | (byte(at + i) & 0x3Fu);
  at += more + 1;
  return character;
}

inline bool continues_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// The beginning of the character that ends before text[end]; end > 0.
inline size_t previous_character(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && continues_character(text[end]));
  return end;
}

inline size_t utf8_length(char32_t character) {
  return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

void append_utf8(std::string& text, char32_t character);
std::string to_utf8(char32_t character);
size_t count_characters(std::string_view text);

bool is_ascii(std::string_view text);

// Unicode's White_Space.
bool is_white_space(char32_t character);
// Letters, marks, decimal digits, letter-like numbers and symbols, connecting punctuation, joiners: what a
// regular expression of Rust's crate `regex` means by \w.
bool is_word_character(char32_t character);
// Category P, and all of ASCII's symbols.
bool is_punctuation(char32_t character);
// Categories N.
bool is_number(char32_t character);
// Categories Cc, Cf and Co: what has no look of its own.
bool is_other(char32_t character);
// Category Mn.
bool is_nonspacing_mark(char32_t character);
// Categories M.
bool is_mark(char32_t character);

// Lower case of one character alone: one or two characters, appended.
void append_lowercase(std::u32string& text, char32_t character);

// The full decomposition of one character, appended: canonical (NFD's) or by compatibility (NFKD's).
void append_decomposition(std::u32string& text, char32_t character, bool compatible);
// Canonical_Combining_Class; 0: the character starts something of its own.
uint8_t combining_class(char32_t character);
// The one character that NFC puts in place of two; 0 where it keeps both.
char32_t compose(char32_t first, char32_t second);

// The ends of the extended grapheme clusters of valid UTF-8, in bytes: what a reader takes for one letter.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace qkv::text

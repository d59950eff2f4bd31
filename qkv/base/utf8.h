#pragma once
// UTF-8 as defined by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";  // U+FFFD

// Untrusted bytes.

// The position of the first invalid byte; nothing if all are valid. For a truncated or malformed character,
// the position of its first byte.
std::optional<size_t> first_bad_utf8(std::string_view bytes);

inline bool valid_utf8(std::string_view bytes) { return !first_bad_utf8(bytes); }

// Decodes to code points. Each maximal invalid subpart becomes one U+FFFD, as in Python's decode("utf-8",
// "replace") and the Unicode Standard (3.9, "U+FFFD Substitution of Maximal Subparts").
std::u32string decode_utf8(std::string_view bytes);

// Likewise as UTF-8, with the input position of each byte.
struct RepairedText {
  std::string text;
  std::vector<uint32_t> sources;  // input position of each byte of `text`, and of its end
};
RepairedText repair_utf8(std::string_view bytes);

// The rest of this header requires valid UTF-8.

// Decodes the character at text[at] and moves `at` past it.
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

// The start of the character that ends at text[end]; end > 0.
inline size_t previous_character(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && continues_character(text[end]));
  return end;
}

// The number of bytes of a character in UTF-8.
inline size_t utf8_length(char32_t character) {
  return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

size_t count_characters(std::string_view text);
bool is_ascii(std::string_view text);

// Code points below U+110000 that are not surrogates.
void append_utf8(std::string& text, char32_t character);
std::string encode_utf8(std::u32string_view text);
inline std::string to_utf8(char32_t character) { return encode_utf8({&character, 1}); }

}  // namespace qkv

#include "qkv/base/utf8.h"

#include <cstring>

namespace qkv {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080ull;  // of eight bytes: all zero for ASCII

// The leading bytes of a text that form one character, or a valid prefix of one.
struct Sequence {
  size_t length;  // at least 1
  bool valid;
};

Sequence first_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, true};
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0) return {1, false};
  // The range of the second byte excludes overlong forms, surrogates and code points above U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF))
      return {i, false};
  }
  return {length, true};
}

}  // namespace

std::optional<size_t> first_bad_utf8(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    // Fast path for ASCII: eight bytes at a time.
    uint64_t word = 0;
    if (bytes.size() - at >= sizeof(word)) {
      std::memcpy(&word, bytes.data() + at, sizeof(word));
      if ((word & kHighBits) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const Sequence sequence = first_sequence(bytes.substr(at));
    if (!sequence.valid) return at;
    at += sequence.length;
  }
  return std::nullopt;
}

std::u32string decode_utf8(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Sequence sequence = first_sequence(bytes.substr(at));
    if (sequence.valid) {
      text += next_character(bytes, at);
    } else {
      text += kReplacementCharacter;
      at += sequence.length;
    }
  }
  return text;
}

RepairedText repair_utf8(std::string_view bytes) {
  RepairedText result;
  result.text.reserve(bytes.size());
  result.sources.reserve(bytes.size() + 1);
  for (size_t at = 0; at < bytes.size();) {
    const Sequence sequence = first_sequence(bytes.substr(at));
    result.text += sequence.valid ? bytes.substr(at, sequence.length) : kReplacementUtf8;
    while (result.sources.size() < result.text.size()) result.sources.push_back(static_cast<uint32_t>(at));
    at += sequence.length;
  }
  result.sources.push_back(static_cast<uint32_t>(bytes.size()));
  return result;
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += !continues_character(byte);
  return count;
}

bool is_ascii(std::string_view text) {
  size_t at = 0;
  uint64_t word = 0, seen = 0;
  for (; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    seen |= word;
  }
  for (; at < text.size(); ++at) seen |= static_cast<uint8_t>(text[at]);
  return (seen & kHighBits) == 0;
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  const size_t length = utf8_length(c);
  char bytes[4];
  for (size_t i = length - 1; i > 0; --i, c >>= 6) bytes[i] = static_cast<char>(0x80 | (c & 0x3F));
  bytes[0] = static_cast<char>(kLead[length] | c);
  text.append(bytes, length);
}

std::string encode_utf8(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (const char32_t c : text) append_utf8(bytes, c);
  return bytes;
}

}  // namespace qkv

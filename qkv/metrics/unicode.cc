#include "qkv/metrics/unicode.h"

namespace qkv::metrics {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// How a multi-byte sequence goes on after its first byte: the bounds of the second byte keep out overlong
// forms, surrogates and what lies above U+10FFFF; all later bytes are 80..BF.
struct Lead {
  int continuation_bytes = 0;  // 0: not a first byte
  unsigned char second_low = 0x80, second_high = 0xBF;
};

Lead classify(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

// Decodes the sequence that starts with the non-ASCII byte at `position`, which moves behind it.
char32_t decode_sequence(std::string_view bytes, size_t& position) {
  const unsigned char first = static_cast<unsigned char>(bytes[position++]);
  const Lead lead = classify(first);
  if (lead.continuation_bytes == 0) return kReplacement;
  char32_t code_point = first & (0x3Fu >> lead.continuation_bytes);
  for (int i = 0; i < lead.continuation_bytes; ++i) {
    if (position == bytes.size()) return kReplacement;
    const unsigned char byte = static_cast<unsigned char>(bytes[position]);
    const unsigned char low = i == 0 ? lead.second_low : 0x80, high = i == 0 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return kReplacement;
    code_point = (code_point << 6) | (byte & 0x3Fu);
    ++position;
  }
  return code_point;
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const unsigned char byte = static_cast<unsigned char>(bytes[i]);
    if (byte < 0x80) {
      text += byte;
      ++i;
    } else {
      text += decode_sequence(bytes, i);
    }
  }
  return text;
}

std::string encode_utf8(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  const auto put = [&](char32_t byte) { bytes += static_cast<char>(static_cast<unsigned char>(byte)); };
  for (const char32_t c : text) {
    if (c < 0x80) {
      put(c);
      continue;
    }
    const int continuation_bytes = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr char32_t kMark[] = {0, 0xC0, 0xE0, 0xF0};
    put(kMark[continuation_bytes] | (c >> (6 * continuation_bytes)));
    for (int i = continuation_bytes - 1; i >= 0; --i) put(0x80 | ((c >> (6 * i)) & 0x3F));
  }
  return bytes;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::vector<std::u32string_view> split_whitespace(std::u32string_view text) {
  std::vector<std::u32string_view> parts;
  for (size_t i = 0; i < text.size();) {
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    parts.push_back(text.substr(begin, i - begin));
  }
  return parts;
}

std::u32string_view strip_right(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace qkv::metrics

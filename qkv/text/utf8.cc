#include "qkv/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace qkv::text {
namespace {

// How many bytes at the beginning of text are a character, or as much of one as is there.
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
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF))
      return {i, false};
  }
  return {length, true};
}

}  // namespace

std::optional<size_t> first_bad_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    // Most text is mostly ASCII: eight bytes at a time.
    uint64_t word = 0;
    if (text.size() - at >= sizeof(word)) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080ull) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const Sequence sequence = first_sequence(text.substr(at));
    if (!sequence.valid) return at;
    at += sequence.length;
  }
  return std::nullopt;
}

RepairedText repair_utf8(std::string_view bytes) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  RepairedText result;
  result.text.reserve(bytes.size());
  result.sources.reserve(bytes.size() + 1);
  for (size_t at = 0; at < bytes.size();) {
    const Sequence sequence = first_sequence(bytes.substr(at));
    result.text += sequence.valid ? bytes.substr(at, sequence.length) : kReplacement;
    while (result.sources.size() < result.text.size()) result.sources.push_back(static_cast<uint32_t>(at));
    at += sequence.length;
  }
  result.sources.push_back(static_cast<uint32_t>(bytes.size()));
  return result;
}

}  // namespace qkv::text

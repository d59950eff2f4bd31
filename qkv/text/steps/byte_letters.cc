#include "qkv/text/steps/byte_letters.h"

#include <array>

#include "qkv/base/utf8.h"

namespace qkv::text {
namespace {

constexpr int kBytes = 256, kLetters = 0x144;  // the last letter is U+0143

struct Tables {
  std::array<std::string, kBytes> letters;
  std::array<int, kLetters> bytes;

  Tables() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < kBytes; ++byte) {
      const bool printable =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
      const char32_t letter = printable ? static_cast<char32_t>(byte) : next++;
      letters[static_cast<size_t>(byte)] = to_utf8(letter);
      bytes[letter] = byte;
    }
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

}  // namespace

std::string_view letter_of_byte(uint8_t byte) { return tables().letters[byte]; }

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (size_t at = 0; at < letters.size();) {
    const char32_t letter = next_character(letters, at);
    const int byte = letter < kLetters ? tables().bytes[letter] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace qkv::text

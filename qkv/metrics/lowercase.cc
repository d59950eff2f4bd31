#include <algorithm>
#include <iterator>

#include "qkv/metrics/lowercase_table.h"
#include "qkv/metrics/unicode.h"

namespace qkv::metrics {
namespace {

constexpr char32_t kCapitalIWithDot = 0x130, kCombiningDot = 0x307;
constexpr char32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;

char32_t lower(char32_t c) {
  const auto* range = std::lower_bound(std::begin(kLowercase), std::end(kLowercase), c,
                                       [](const CaseRange& r, char32_t value) { return r.last < value; });
  if (range == std::end(kLowercase) || c < range->first || (c - range->first) % range->stride != 0) return c;
  return static_cast<char32_t>(static_cast<int32_t>(c) + range->delta);
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (c >= 0xC0 && c <= 0x24F) return c != 0xD7 && c != 0xF7 && c != 0x1BB && !(c >= 0x1C0 && c <= 0x1C3);
  if (c >= 0x386 && c <= 0x481) return c != 0x387 && c != 0x3F6;
  if (c >= 0x48A && c <= 0x52F) return true;
  return c >= 0x1F00 && c <= 0x1FFC && lower(c) != c;
}

// What may stand inside a word without ending it: apostrophes, stops, accents, soft hyphens.
bool is_transparent(char32_t c) {
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xA8 || c == 0xAD || c == 0xAF ||
         c == 0xB4 || c == 0xB7 || c == 0xB8 || (c >= 0x300 && c <= 0x36F) || c == 0x387 || c == 0x2018 ||
         c == 0x2019 || c == 0x200D;
}

// Unicode's Final_Sigma: a letter before, and none after.
bool ends_word(std::u32string_view text, size_t position) {
  size_t before = position;
  while (before > 0 && is_transparent(text[before - 1])) --before;
  if (before == 0 || !is_letter(text[before - 1])) return false;
  size_t after = position + 1;
  while (after < text.size() && is_transparent(text[after])) ++after;
  return after == text.size() || !is_letter(text[after]);
}

}  // namespace

std::u32string lowercase(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c == kCapitalIWithDot) {
      result += U'i';
      result += kCombiningDot;
    } else if (c == kCapitalSigma) {
      result += ends_word(text, i) ? kFinalSigma : kSigma;
    } else {
      result += lower(c);
    }
  }
  return result;
}

}  // namespace qkv::metrics

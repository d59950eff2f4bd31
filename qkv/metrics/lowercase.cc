#include <utf8proc.h>

#include <string_view>

#include "qkv/metrics/unicode.h"

namespace qkv::metrics {
namespace {

constexpr char32_t kCapitalIWithDot = 0x130, kCombiningDot = 0x307;
constexpr char32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;

char32_t lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

// A letter that has a case.
bool is_cased(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

// Unicode's Case_Ignorable: characters that may occur inside a word, such as accents, apostrophes and full
// stops.
bool is_transparent(char32_t c) {
  constexpr std::u32string_view kWithinWords =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return kWithinWords.find(c) != kWithinWords.npos;
  }
}

// Unicode's Final_Sigma: a cased letter before, and none after.
bool ends_word(std::u32string_view text, size_t position) {
  size_t before = position;
  while (before > 0 && is_transparent(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = position + 1;
  while (after < text.size() && is_transparent(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
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

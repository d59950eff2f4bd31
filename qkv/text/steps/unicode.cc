#include "qkv/text/steps/unicode.h"

#include <utf8proc.h>

#include <array>

#include "qkv/base/utf8.h"

namespace qkv::text {
namespace {

utf8proc_category_t category(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool between(utf8proc_category_t found, utf8proc_category_t first, utf8proc_category_t last) {
  return found >= first && found <= last;
}

// Symbols (category So) that Unicode classifies as alphabetic: circled and squared Latin letters.
bool is_letter_like_symbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return c == 0x85 || between(category(c), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_word_character(char32_t c) {
  const auto found = category(c);
  return between(found, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || found == UTF8PROC_CATEGORY_PC ||
         c == 0x200C || c == 0x200D || is_letter_like_symbol(c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c > 0x20 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7F);
  return between(category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_number(char32_t c) { return between(category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }

bool is_other(char32_t c) {
  const auto found = category(c);
  return found == UTF8PROC_CATEGORY_CC || found == UTF8PROC_CATEGORY_CF || found == UTF8PROC_CATEGORY_CO;
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_mark(char32_t c) { return between(category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }

void append_lowercase(std::u32string& text, char32_t c) {
  constexpr char32_t kCapitalIWithDot = 0x130, kCombiningDot = 0x307;
  // The only one with a two-character lower case, which utf8proc's simple mapping lacks.
  if (c == kCapitalIWithDot) {
    text += U'i';
    text += kCombiningDot;
  } else {
    text += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  }
}

void append_decomposition(std::u32string& text, char32_t c, bool compatible) {
  if (c < 0x80) {
    text += c;
    return;
  }
  std::array<utf8proc_int32_t, 32> characters{};  // the longest decomposition, of U+FDFA, has 18
  const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), characters.data(), characters.size(),
                              static_cast<utf8proc_option_t>(options), nullptr);
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    text += static_cast<char32_t>(characters[static_cast<size_t>(i)]);
}

uint8_t combining_class(char32_t c) {
  if (c < 0x300) return 0;
  return static_cast<uint8_t>(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class);
}

char32_t compose(char32_t first, char32_t second) {
  if (second < 0x300) return 0;
  utf8proc_int32_t both[] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto length =
      utf8proc_normalize_utf32(both, 2, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  return length == 1 ? static_cast<char32_t>(both[0]) : 0;
}

std::vector<size_t> grapheme_ends(std::string_view text) {
  std::vector<size_t> ends;
  utf8proc_int32_t state = 0, previous = -1;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, at));
    if (previous >= 0 && utf8proc_grapheme_break_stateful(previous, c, &state)) ends.push_back(begin);
    previous = c;
  }
  if (!text.empty()) ends.push_back(text.size());
  return ends;
}

}  // namespace qkv::text

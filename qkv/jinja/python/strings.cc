#include "qkv/jinja/python/strings.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "qkv/base/utf8.h"
#include "qkv/jinja/python/case_table.h"

namespace qkv::jinja {
namespace {

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
bool in_category(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  return category_of(c) >= first && category_of(c) <= last;
}

const SpecialCase* special_case(char32_t c) {
  const auto* found =
      std::lower_bound(kSpecialCases.begin(), kSpecialCases.end(), c,
                       [](const SpecialCase& one, char32_t value) { return one.character < value; });
  return found != kSpecialCases.end() && found->character == c ? found : nullptr;
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  } else if (const SpecialCase* special = special_case(c)) {
    out += special->upper;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* special = special_case(c))
    out += special->title;
  else
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || category_of(c) == UTF8PROC_CATEGORY_LT; }
// Characters that Final_Sigma (The Unicode Standard, 3.13) looks past.
bool is_case_ignorable(char32_t c) {
  constexpr std::u32string_view kInWords = U"'.:··՟״‘’․‧︓︙.';";
  return in_category(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN) ||
         category_of(c) == UTF8PROC_CATEGORY_ME || category_of(c) == UTF8PROC_CATEGORY_CF ||
         category_of(c) == UTF8PROC_CATEGORY_LM || category_of(c) == UTF8PROC_CATEGORY_SK ||
         kInWords.find(c) != std::u32string_view::npos;
}

void append_lower(std::string& out, const std::u32string& text, size_t at) {
  const char32_t c = text[at];
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x130) {
    out += "i\u0307";
  } else if (c == 0x3A3) {  // the last sigma of a word has another form
    size_t before = at;
    while (before > 0 && is_case_ignorable(text[before - 1])) --before;
    size_t after = at + 1;
    while (after < text.size() && is_case_ignorable(text[after])) ++after;
    const bool last =
        before > 0 && is_cased(text[before - 1]) && !(after < text.size() && is_cased(text[after]));
    append_utf8(out, last ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

// The pieces of split(), last first, if `right`.
std::vector<std::string> split_at_space(std::u32string_view text, int64_t most, bool right) {
  std::vector<std::string> parts;
  const auto space = [](char32_t c) { return is_space(c); };
  if (right) {
    while (true) {
      while (!text.empty() && space(text.back())) text.remove_suffix(1);
      if (text.empty()) break;
      size_t begin = text.size();
      if (most < 0 || static_cast<int64_t>(parts.size()) < most) {
        while (begin > 0 && !space(text[begin - 1])) --begin;
      } else {
        begin = 0;
      }
      parts.push_back(encode_utf8(text.substr(begin)));
      text = text.substr(0, begin);
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  while (true) {
    while (!text.empty() && space(text.front())) text.remove_prefix(1);
    if (text.empty()) break;
    size_t end = text.size();
    if (most < 0 || static_cast<int64_t>(parts.size()) < most)
      end = static_cast<size_t>(std::find_if(text.begin(), text.end(), space) - text.begin());
    parts.push_back(encode_utf8(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return parts;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  return category_of(c) != UTF8PROC_CATEGORY_CN &&
         !in_category(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO);  // separators, then others
}

bool is_alphabetic(char32_t c) { return in_category(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }
bool is_decimal(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit_character(char32_t c) {  // with superscripts and circled digits
  if (is_decimal(c)) return true;
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490);
}
bool is_numeric(char32_t c) { return in_category(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_title_case(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LT; }
bool is_upper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_lower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_name_start(char32_t c) {
  return c == '_' || is_alphabetic(c) || category_of(c) == UTF8PROC_CATEGORY_NL;
}
bool is_name_part(char32_t c) {
  return is_name_start(c) || is_decimal(c) || in_category(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC) ||
         category_of(c) == UTF8PROC_CATEGORY_PC;
}

std::string upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) append_upper(out, next_character(text, at));
  return out;
}

std::string lower(std::string_view text) {
  const std::u32string characters = decode_utf8(text);
  std::string out;
  for (size_t i = 0; i < characters.size(); ++i) append_lower(out, characters, i);
  return out;
}

std::string title(std::string_view text) {
  const std::u32string characters = decode_utf8(text);
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (inside)
      append_lower(out, characters, i);
    else
      append_title(out, characters[i]);
    inside = is_cased(characters[i]);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string characters = decode_utf8(text);
  std::string out;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (i > 0)
      append_lower(out, characters, i);
    else
      append_title(out, characters[i]);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  const std::u32string characters = decode_utf8(text);
  std::string out;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (is_upper(characters[i]))
      append_lower(out, characters, i);
    else if (is_lower(characters[i]))
      append_upper(out, characters[i]);
    else
      append_utf8(out, characters[i]);
  }
  return out;
}

std::string_view strip(std::string_view text, const std::optional<std::string_view>& characters, bool left,
                       bool right) {
  const std::u32string chosen = decode_utf8(characters.value_or(""));
  const auto goes = [&](char32_t c) {
    return characters ? chosen.find(c) != std::u32string::npos : is_space(c);
  };
  while (left && !text.empty()) {
    size_t end = 0;
    if (!goes(next_character(text, end))) break;
    text.remove_prefix(end);
  }
  while (right && !text.empty()) {
    const size_t begin = previous_character(text, text.size());
    size_t at = begin;
    if (!goes(next_character(text, at))) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::vector<std::string> split(std::string_view text, const std::optional<std::string_view>& separator,
                               int64_t most) {
  if (!separator) return split_at_space(decode_utf8(text), most, /*right=*/false);
  std::vector<std::string> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = text.find(*separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, found));
    text.remove_prefix(found + separator->size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> split_right(std::string_view text, const std::optional<std::string_view>& separator,
                                     int64_t most) {
  if (!separator) return split_at_space(decode_utf8(text), most, /*right=*/true);
  std::vector<std::string> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = text.rfind(*separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(found + separator->size()));
    text = text.substr(0, found);
  }
  parts.emplace_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_character(text, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replace(std::string_view text, std::string_view old, std::string_view with, int64_t most) {
  std::string out;
  size_t at = 0;
  for (int64_t done = 0; most < 0 || done < most; ++done) {
    if (old.empty()) {  // before each character, and at the end
      out += with;
      if (at == text.size()) return out;
      const size_t begin = at;
      next_character(text, at);
      out += text.substr(begin, at - begin);
      continue;
    }
    const size_t found = text.find(old, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    out += with;
    at = found + old.size();
  }
  out += text.substr(at);
  return out;
}

int64_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<int64_t>(count_characters(text)) + 1;
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

std::string hex_escape(char32_t c) {
  std::array<char, 16> escape{};
  std::snprintf(escape.data(), escape.size(),
                c < 0x100     ? "\\x%02x"
                : c < 0x10000 ? "\\u%04x"
                              : "\\U%08x",
                static_cast<unsigned>(c));
  return escape.data();
}

std::string string_repr(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = single ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      append_utf8(out, c);
    } else {
      out += hex_escape(c);
    }
  }
  return out += quote;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace qkv::jinja

#include "qkv/metrics/tokenize_13a.h"

#include <utility>

#include "qkv/base/utf8.h"
#include "qkv/metrics/unicode.h"

namespace qkv::metrics {
namespace {

void replace_all(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  size_t found = text.find(from);
  if (found == std::u32string::npos) return;
  std::u32string result;
  result.reserve(text.size());
  size_t begin = 0;
  for (; found != std::u32string::npos; found = text.find(from, begin)) {
    result.append(text, begin, found - begin).append(to);
    begin = found + from.size();
  }
  text = std::move(result.append(text, begin));
}

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_stop(char32_t c) { return c == '.' || c == ','; }

// ASCII punctuation except ' , - .
bool always_stands_alone(char32_t c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= '!' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

enum class Spaces { around_second, around_first };

// Scans the text from left to right. Where two adjacent characters match, separates the second (or the first)
// by spaces and continues after both. By the tokenizer's definition, neither can start the next pair.
template <class Matches>
std::u32string separate_pairs(std::u32string_view text, Spaces spaces, Matches matches) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 4);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !matches(text[i], text[i + 1])) {
      result += text[i];
      continue;
    }
    if (spaces == Spaces::around_first) result += U' ';
    result += text[i];
    result += U' ';
    result += text[i + 1];
    if (spaces == Spaces::around_second) result += U' ';
    ++i;
  }
  return result;
}

}  // namespace

std::u32string separate_13a(std::u32string_view segment) {
  std::u32string line(segment);
  replace_all(line, U"<skipped>", U"");
  replace_all(line, U"-\n", U"");
  replace_all(line, U"\n", U" ");
  // Sequentially, so that "&amp;lt;" becomes "<".
  replace_all(line, U"&quot;", U"\"");
  replace_all(line, U"&amp;", U"&");
  replace_all(line, U"&lt;", U"<");
  replace_all(line, U"&gt;", U">");

  std::u32string spaced = U" ";  // the spaces at both ends count as neighbours below
  for (const char32_t c : line) {
    if (always_stands_alone(c)) {
      spaced += U' ';
      spaced += c;
      spaced += U' ';
    } else {
      spaced += c;
    }
  }
  spaced += U' ';
  spaced = separate_pairs(spaced, Spaces::around_second,
                          [](char32_t a, char32_t b) { return !is_digit(a) && is_stop(b); });
  spaced = separate_pairs(spaced, Spaces::around_first,
                          [](char32_t a, char32_t b) { return is_stop(a) && !is_digit(b); });
  return separate_pairs(spaced, Spaces::around_second,
                        [](char32_t a, char32_t b) { return is_digit(a) && b == '-'; });
}

std::vector<std::string> tokenize_13a(std::string_view segment) {
  const std::u32string spaced = separate_13a(decode_utf8(segment));
  std::vector<std::string> tokens;
  for (const std::u32string_view token : split_whitespace(spaced)) tokens.push_back(encode_utf8(token));
  return tokens;
}

}  // namespace qkv::metrics

#include "qkv/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/python/strings.h"

namespace qkv::jinja {
namespace {

using TokenKind = Token::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string with_unix_newlines(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r')
      out += text[i];
    else if (i + 1 == text.size() || text[i + 1] != '\n')
      out += '\n';
  }
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name) : name_(name), source_(with_unix_newlines(source)) {
    if (source_.ends_with('\n')) source_.pop_back();  // keep_trailing_newline=False
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) data();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_at(name_, line_, what); }
  bool follows(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }
  void add(TokenKind kind, std::string text, Value value = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(value)});
  }
  // Moves to `end` and counts the lines on the way.
  void move_to(size_t end) {
    for (; at_ < end; ++at_) line_ += source_[at_] == '\n';
    line_starting_ = end > 0 && source_[end - 1] == '\n';
  }
  size_t after_space(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(next_character(source_, next))) break;
      at = next;
    }
    return at;
  }
  size_t after_newline(size_t at) const { return at < source_.size() && source_[at] == '\n' ? at + 1 : at; }
  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : ' ';
  }

  // The text before a tag at `tag`, as whitespace control leaves it.
  std::string_view kept(size_t tag, char sign, bool variable) const {
    const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') return strip(text, {}, /*left=*/false);
    if (sign == '+' || variable) return text;
    const size_t line = text.rfind('\n') + 1;  // 0 if there is none
    if ((line > 0 || line_starting_) && strip(text.substr(line)).empty()) return text.substr(0, line);
    return text;
  }
  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenKind::data, std::string(text));
  }

  // If "<open> <sign> <word> <close>" with this word is at `at`, its end, else 0. `trims`: a newline after it
  // belongs to it.
  size_t tag_end(size_t at, std::string_view word, bool trims) const {
    at += 2;
    if (sign_at(at) != ' ') ++at;
    at = after_space(at);
    const std::string_view rest = std::string_view(source_).substr(at);
    if (!rest.starts_with(word)) return 0;
    at = after_space(at + word.size());
    const char sign = sign_at(at);
    if (sign == '-' || (sign == '+' && trims)) ++at;
    if (std::string_view(source_).substr(at, 2) != "%}") return 0;
    at += 2;
    if (sign == '-') return after_space(at);
    return trims && sign != '+' ? after_newline(at) : at;
  }

  void data() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == source_.size()) {
        add_data(std::string_view(source_).substr(at_));
        at_ = source_.size();
        return;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const bool variable = source_[tag + 1] == '{';
    const bool comment = source_[tag + 1] == '#';
    const char sign = sign_at(tag + 2);
    add_data(kept(tag, sign, variable));
    move_to(tag);
    if (const size_t end = !variable && !comment ? tag_end(tag, "raw", /*trims=*/false) : 0; end > 0) {
      move_to(end);
      return raw();
    }
    const size_t begin = tag + (sign == ' ' ? 2 : 3);
    if (comment) return skip_comment(begin);
    add(variable ? TokenKind::variable_begin : TokenKind::block_begin, "");
    move_to(begin);
    inside(variable);
  }

  void raw() {
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      const size_t end = tag_end(tag, "endraw", /*trims=*/true);
      if (end == 0) continue;
      add_data(kept(tag, sign_at(tag + 2), /*variable=*/false));
      return move_to(end);
    }
    fail("expected {% endraw %}, found the end of the template");
  }

  void skip_comment(size_t begin) {
    const size_t close = source_.find("#}", begin);
    if (close == std::string::npos) fail("expected the end of a comment, #}, found the end of the template");
    const char sign = close > begin ? source_[close - 1] : ' ';
    const size_t end = close + 2;
    move_to(sign == '-' ? after_space(end) : sign == '+' ? end : after_newline(end));
  }

  // A tag's tokens, to its end.
  void inside(bool variable) {
    std::string open;  // brackets
    while (true) {
      if (at_ == source_.size()) {
        // The parser names what it expects.
        return;
      }
      if (open.empty()) {
        const std::string_view close = variable ? "}}" : "%}";
        const bool minus = source_[at_] == '-';
        const bool plus = source_[at_] == '+' && !variable;
        if (std::string_view(source_).substr(at_ + (minus || plus ? 1 : 0), 2) == close) {
          add(variable ? TokenKind::variable_end : TokenKind::block_end, "");
          const size_t end = at_ + (minus || plus ? 3 : 2);
          return move_to(minus ? after_space(end) : plus || variable ? end : after_newline(end));
        }
      }
      if (const size_t end = after_space(at_); end > at_) {
        move_to(end);
      } else if (!number() && !name() && !string()) {
        op(open);
      }
    }
  }

  // \d+ with single underscores between digits; the position after them, or `at` if there are none.
  size_t after_digits(size_t at, std::string_view digits) const {
    const auto is = [&](size_t i) {
      return i < source_.size() && digits.find(source_[i]) != std::string_view::npos;
    };
    if (!is(at)) return at;
    ++at;
    while (is(at) || (at < source_.size() && source_[at] == '_' && is(at + 1))) ++at;
    return at;
  }

  bool number() {
    constexpr std::string_view kDecimal = "0123456789";
    if (!is_digit(source_[at_])) return false;
    const size_t whole = after_digits(at_, kDecimal);
    // A fraction, an exponent, or both.
    size_t end = whole;
    if (end < source_.size() && source_[end] == '.') {
      const size_t fraction = after_digits(end + 1, kDecimal);
      if (fraction > end + 1) end = fraction;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t digits = end + (sign_at(end + 1) == ' ' ? 1 : 2);
      const size_t exponent = after_digits(digits, kDecimal);
      if (exponent > digits) end = exponent;
    }
    if (end > whole && (at_ == 0 || source_[at_ - 1] != '.')) {
      const std::optional<double> value = parse_float(std::string_view(source_).substr(at_, end - at_));
      if (!value) fail("expected a number, found '" + source_.substr(at_, end - at_) + "'");
      add(TokenKind::number, "", *value);
      move_to(end);
      return true;
    }
    return integer();
  }

  bool integer() {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kBases = {
        {{"bB", "01"}, {"oO", "01234567"}, {"xX", "0123456789abcdefABCDEF"}}};
    size_t end = at_;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      for (const auto& [marks, digits] : kBases) {
        if (marks.find(source_[at_ + 1]) == std::string_view::npos) continue;
        const size_t begin = at_ + 2 + (at_ + 2 < source_.size() && source_[at_ + 2] == '_' ? 1 : 0);
        if (const size_t last = after_digits(begin, digits); last > begin) end = last;
      }
    }
    if (end == at_) end = after_digits(at_, source_[at_] == '0' ? "0" : "0123456789");
    std::string text;
    for (size_t i = at_; i < end; ++i) {
      if (source_[i] != '_') text += source_[i];
    }
    bool overflow = false;
    const std::optional<int64_t> value = parse_integer(text, 0, overflow);
    if (!value || overflow) fail("expected an integer of at most 64 bits, found '" + text + "'");
    add(TokenKind::integer, text, *value);
    move_to(end);
    return true;
  }

  bool name() {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      const char32_t c = next_character(source_, next);
      if (!(end == at_ ? is_name_start(c) : is_name_part(c))) break;
      end = next;
    }
    if (end == at_) return false;
    add(TokenKind::name, source_.substr(at_, end - at_));
    move_to(end);
    return true;
  }

  bool string() {
    const char quote = source_[at_];
    if (quote != '"' && quote != '\'') return false;
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("expected the end of a string, found the end of the template");
    add(TokenKind::string, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    move_to(end + 1);
    return true;
  }

  // Python's "unicode-escape", after characters beyond ASCII became escapes themselves.
  std::string unescaped(std::string_view text) const {
    constexpr std::string_view kSimple = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    std::string ascii;
    for (size_t at = 0; at < text.size();) {
      const char32_t c = next_character(text, at);
      if (c < 0x80) {
        ascii += static_cast<char>(c);
      } else {
        ascii += hex_escape(c);
      }
    }
    std::string out;
    for (size_t i = 0; i < ascii.size(); ++i) {
      if (ascii[i] != '\\') {
        out += ascii[i];
        continue;
      }
      if (++i == ascii.size()) fail("a string ends with a backslash");
      const char c = ascii[i];
      if (c == '\n') continue;
      if (c == 'N') fail("a string has an escape \\N{...}, which is not supported");
      if (c >= '0' && c <= '7') {
        unsigned value = 0;
        size_t digits = 0;
        for (;
             digits < 3 && i + digits < ascii.size() && ascii[i + digits] >= '0' && ascii[i + digits] <= '7';
             ++digits)
          value = value * 8 + static_cast<unsigned>(ascii[i + digits] - '0');
        i += digits - 1;
        append_utf8(out, value);
      } else if (const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0; digits > 0) {
        unsigned value = 0;
        const char* first = ascii.data() + i + 1;
        const char* last = first + std::min(digits, ascii.size() - i - 1);
        const auto [end, error] = std::from_chars(first, last, value, 16);
        if (error != std::errc() || end != first + digits || value > 0x10FFFF ||
            (value >= 0xD800 && value < 0xE000))
          fail(concat("expected ", digits, " hexadecimal digits of a character after \\", c, ", found '",
                      std::string_view(first, static_cast<size_t>(last - first)), "'"));
        append_utf8(out, value);
        i += digits;
      } else if (const size_t known = kSimple.find(c); known % 2 == 0) {  // pairs of a name and its character
        out += kSimple[known + 1];
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void op(std::string& open) {
    constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view candidate : kOperators) {
      if (!follows(candidate)) continue;
      if (candidate == "(" || candidate == "[" || candidate == "{") {
        open += candidate == "(" ? ')' : candidate == "[" ? ']' : '}';
      } else if (candidate == ")" || candidate == "]" || candidate == "}") {
        if (open.empty()) fail(concat("unexpected '", candidate, "'"));
        if (open.back() != candidate[0])
          fail(concat("expected '", open.back(), "', found '", candidate, "'"));
        open.pop_back();
      }
      add(TokenKind::op, std::string(candidate));
      return move_to(at_ + candidate.size());
    }
    size_t end = at_;
    next_character(source_, end);
    fail("unexpected character '" + source_.substr(at_, end - at_) + "'");
  }

  const std::string& name_;
  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

void fail_at(const std::string& name, int line, const std::string& what) {
  throw DataError(concat(name, ": line ", line, ": ", what));
}

std::vector<Token> tokenize(std::string_view source, const std::string& name) {
  if (const auto bad = first_bad_utf8(source))
    throw DataError(concat(name, ": expected UTF-8, found another byte at position ", *bad));
  return Lexer(source, name).run();
}

}  // namespace qkv::jinja

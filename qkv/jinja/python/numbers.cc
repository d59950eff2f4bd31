// Numbers to texts and back, as Python does.

#include <charconv>
#include <cmath>

#include "qkv/base/utf8.h"
#include "qkv/jinja/python/strings.h"

namespace qkv::jinja {
namespace {

// Removes white space at both ends and single underscores between digits; nothing if an underscore is
// elsewhere. Decimal digits of other scripts are not supported.
std::optional<std::string> plain_number(std::string_view text) {
  text = strip(text);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto alphanumeric = [&](size_t at) {
      return at < text.size() &&
             ((text[at] >= '0' && text[at] <= '9') || (text[at] >= 'a' && text[at] <= 'z') ||
              (text[at] >= 'A' && text[at] <= 'Z'));
    };
    if (text[i] != '_')
      plain += text[i];
    else if (i == 0 || !alphanumeric(i - 1) || !alphanumeric(i + 1))
      return std::nullopt;
  }
  return plain;
}

char lower_ascii(char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); }

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const char* digits_of_exponent = scientific.data() + e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_exponent, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string text(scientific.substr(0, e + 1));
    text += exponent < 0 ? '-' : '+';
    const std::string magnitude = std::to_string(std::abs(exponent));
    if (magnitude.size() < 2) text += '0';
    return text + magnitude;
  }
  const auto fixed_end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string text(buffer, fixed_end);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::optional<int64_t> parse_integer(std::string_view text, int base, bool& overflow) {
  overflow = false;
  std::optional<std::string> plain = plain_number(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  const char mark = digits.size() > 1 && digits[0] == '0' ? lower_ascii(digits[1]) : ' ';
  const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == marked || base == 0)) {
    digits.remove_prefix(2);
    base = marked;
  } else if (base == 0) {
    base = 10;
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos)
      return std::nullopt;  // int("012", 0)
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) return std::nullopt;
  overflow = error == std::errc::result_out_of_range || value > uint64_t{INT64_MAX} + (negative ? 1 : 0);
  if (overflow) return 0;
  return static_cast<int64_t>(negative ? uint64_t{0} - value : value);
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> plain = plain_number(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || digits.back() == ')') return std::nullopt;  // "nan(1)"
  if (error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // Below the smallest number if the exponent is negative or the first digit that counts follows the point.
    const size_t e = digits.find_first_of("eE");
    const bool tiny =
        e != std::string_view::npos ? digits[e + 1] == '-' : digits[0] == '0' || digits[0] == '.';
    value = tiny ? 0.0 : HUGE_VAL;
  }
  return negative ? -value : value;
}

}  // namespace qkv::jinja

#include "qkv/serve/http/url.h"

#include <algorithm>

namespace qkv::serve {
namespace {

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::string spaces_for_plus(std::string_view text) {
  std::string result(text);
  std::ranges::replace(result, '+', ' ');
  return result;
}

}  // namespace

std::optional<std::string> decode_url(std::string_view text, ControlCharacters controls) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      byte = static_cast<char>(high * 16 + low);
      i += 2;
    }
    const bool control = static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f;
    if (control && controls == ControlCharacters::refused) return std::nullopt;
    result += byte;
  }
  return result;
}

std::optional<UrlFields> parse_url_fields(std::string_view text, ControlCharacters controls) {
  UrlFields fields;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('&', begin), text.size());
    const std::string pair = spaces_for_plus(text.substr(begin, end - begin));
    begin = end + 1;
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    auto name = decode_url(pair.substr(0, equals), controls);
    auto value = decode_url(equals == std::string::npos ? "" : pair.substr(equals + 1), controls);
    if (!name || !value) return std::nullopt;
    fields[std::move(*name)] = std::move(*value);
  }
  return fields;
}

}  // namespace qkv::serve

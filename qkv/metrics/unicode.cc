#include "qkv/metrics/unicode.h"

namespace qkv::metrics {

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::vector<std::u32string_view> split_whitespace(std::u32string_view text) {
  std::vector<std::u32string_view> parts;
  for (size_t i = 0; i < text.size();) {
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    parts.push_back(text.substr(begin, i - begin));
  }
  return parts;
}

std::u32string_view strip_right(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace qkv::metrics

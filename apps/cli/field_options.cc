#include "apps/cli/field_options.h"

namespace qkv::apps {

std::string wrapped(const std::string& text) {
  constexpr size_t kWidth = 100;
  constexpr std::string_view kDefault = "(default: ";  // its value stays beside it
  std::string result = text;
  const size_t value = result.rfind(kDefault);
  const size_t space = value == std::string::npos ? result.size() : value + kDefault.size() - 1;
  if (space < result.size()) result[space] = '_';
  for (size_t begin = 0; result.size() - begin > kWidth;) {
    size_t end = result.rfind('\n', begin + kWidth);
    if (end == std::string::npos || end < begin) end = result.rfind(' ', begin + kWidth);
    if (end != std::string::npos && result.substr(0, end).ends_with("(default:"))
      end = result.rfind(' ', end - 1);
    if (end == std::string::npos || end <= begin) break;
    result[end] = '\n';
    begin = end + 1;
  }
  if (space < result.size()) result[space] = ' ';
  return result;
}

}  // namespace qkv::apps

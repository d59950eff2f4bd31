#include "apps/cli/field_options.h"

namespace qkv::apps {

std::string wrapped(const std::string& text) {
  constexpr size_t kWidth = 100;
  std::string result = text;
  for (size_t begin = 0; result.size() - begin > kWidth;) {
    size_t end = result.rfind('\n', begin + kWidth);
    if (end == std::string::npos || end < begin) end = result.rfind(' ', begin + kWidth);
    if (end != std::string::npos && result.substr(0, end).ends_with("(default:"))
      end = result.rfind(' ', end - 1);
    if (end == std::string::npos || end <= begin) break;
    result[end] = '\n';
    begin = end + 1;
  }
  return result;
}

}  // namespace qkv::apps

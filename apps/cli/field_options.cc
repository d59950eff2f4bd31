#include "apps/cli/field_options.h"

namespace qkv::apps {

std::string wrapped(const std::string& text) {
  constexpr size_t kWidth = 100;
  std::string result = text;
  for (size_t begin = 0; result.size() - begin > kWidth;) {
    const size_t space = result.rfind(' ', begin + kWidth);
    if (space == std::string::npos || space <= begin) break;
    result[space] = '\n';
    begin = space + 1;
  }
  return result;
}

}  // namespace qkv::apps

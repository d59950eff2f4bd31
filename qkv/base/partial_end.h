#pragma once
// Texts that arrive in pieces.

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace qkv {

// The length of the longest end of `text` that begins `whole`, which is not empty, but is not all of it.
inline size_t partial_end(std::string_view text, std::string_view whole) {
  size_t length = std::min(text.size(), whole.size() - 1);
  while (length > 0 && !text.ends_with(whole.substr(0, length))) --length;
  return length;
}

}  // namespace qkv

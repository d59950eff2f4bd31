#pragma once
// Special tokens around one text or a pair: the post-processors of a tokenizer.json.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::text {

struct PostProcessing {
  // A part of the result: the first text (0), the second text (1), or special tokens.
  struct Part {
    int text = -1;             // -1: special tokens
    std::vector<int32_t> ids;  // the special tokens
    int32_t type_id = 0;
  };
  std::vector<Part> single{{0, {}, 0}};
  std::vector<Part> pair{{0, {}, 0}, {1, {}, 1}};

  // Offsets exclude white space at a token's ends, except a space that was prepended to the first word.
  bool trim_offsets = false;
  bool add_prefix_space = false;

  // The number of special tokens.
  static int64_t added(const std::vector<Part>& parts) {
    int64_t count = 0;
    for (const Part& part : parts) count += static_cast<int64_t>(part.ids.size());
    return count;
  }
};

}  // namespace qkv::text

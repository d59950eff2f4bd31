#pragma once
// What is put around the tokens of one text or of two: the post-processors of a tokenizer.json.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::text {

struct PostProcessing {
  // A part of the result: the first text (0), the second (1), or tokens of its own.
  struct Part {
    int text = -1;             // -1: tokens of its own
    std::vector<int32_t> ids;  // those
    int32_t type_id = 0;
  };
  std::vector<Part> single{{0, {}, 0}};
  std::vector<Part> pair{{0, {}, 0}, {1, {}, 1}};

  // White space at a token's ends is not counted as its own; a space that was put before the first word is.
  bool trim_offsets = false;
  bool add_prefix_space = false;

  // How many tokens of its own there are.
  static int64_t added(const std::vector<Part>& parts) {
    int64_t count = 0;
    for (const Part& part : parts) count += static_cast<int64_t>(part.ids.size());
    return count;
  }
};

}  // namespace qkv::text

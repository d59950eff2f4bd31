#pragma once
// A byte trie: finds the strings of a set that are prefixes of a text.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::text {

class ByteTrie {
 public:
  ByteTrie() = default;
  // Strings and their values (>= 0), which need only outlive the constructor. The last of equal strings wins;
  // empty ones are ignored.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  // Calls found(length, value) for each string of the set that is a prefix of `text`, shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (nodes_[node].value >= 0) found(i + 1, nodes_[node].value);
    }
  }

  // The longest such prefix; {0, -1} if there is none.
  std::pair<size_t, int32_t> longest_prefix(std::string_view text) const {
    std::pair<size_t, int32_t> best{0, -1};
    prefixes(text, [&](size_t length, int32_t value) { best = {length, value}; });
    return best;
  }

  bool empty() const { return nodes_.size() <= 1; }
  // Whether a string of the set begins with this byte.
  bool begins(uint8_t byte) const { return first_[byte] != 0; }

 private:
  // Children of a node are contiguous, ordered by byte.
  struct Node {
    uint32_t children = 0;  // index of the first
    uint16_t count = 0;
    uint8_t byte = 0;  // the byte leading to this node
    int32_t value = -1;
  };

  uint32_t child(uint32_t node, uint8_t byte) const {
    if (node == 0) return first_[byte];
    const Node& parent = nodes_[node];
    for (uint32_t i = parent.children; i < parent.children + parent.count; ++i) {
      if (nodes_[i].byte >= byte) return nodes_[i].byte == byte ? i : 0;
    }
    return 0;
  }

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> first_{};  // the root's children; 0: none
};

}  // namespace qkv::text

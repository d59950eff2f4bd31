#include "qkv/text/token_models/byte_trie.h"

#include <algorithm>

namespace qkv::text {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Open {
    uint32_t node;
    size_t begin, end;  // the range of entries with this node's prefix
    size_t depth;
  };
  nodes_.emplace_back();
  std::vector<Open> open{{0, 0, entries.size(), 0}};  // breadth-first
  for (size_t next = 0; next < open.size(); ++next) {
    auto [node, begin, end, depth] = open[next];
    for (; begin < end && entries[begin].first.size() == depth; ++begin)
      nodes_[node].value = entries[begin].second;
    if (begin == end) continue;
    nodes_[node].children = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      size_t last = begin;
      while (last < end && entries[last].first[depth] == byte) ++last;
      Node child;
      child.byte = static_cast<uint8_t>(byte);
      if (node == 0) first_[child.byte] = static_cast<uint32_t>(nodes_.size());
      open.push_back({static_cast<uint32_t>(nodes_.size()), begin, last, depth + 1});
      nodes_.push_back(child);
      ++nodes_[node].count;
      begin = last;
    }
  }
}

}  // namespace qkv::text

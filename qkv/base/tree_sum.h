#pragma once
// A sum whose order depends on the number of its leaves only: a binary tree over leaves 0 to n - 1. Node
// (level, index) is the sum of the leaves from index * 2^level on, up to 2^level of them. Processes that hold
// runs of leaves sum their whole subtrees, and the sums of these give the same bits as one process.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkv/base/error.h"

namespace qkv {

struct TreeNode {
  int64_t index = 0;
  int level = 0;
};

template <class T>
class TreeSum {
 public:
  struct Node : TreeNode {
    T sum;
  };

  // Throws UsageError for no leaves.
  explicit TreeSum(int64_t leaves) : leaves_(leaves) {
    if (leaves < 1) throw UsageError(concat("sum: expected one leaf or more, found ", leaves));
  }

  // Adds a node, in ascending order of their leaves, and sums those whose siblings are known; holds at most
  // 2 log2(n) nodes. `add` returns the sum of two T.
  template <class Add>
  void push(TreeNode at, T sum, const Add& add) {
    while (!is_root(at)) {
      const bool right = at.index % 2 == 1;
      const bool is_last = (at.index + 1) << at.level >= leaves_;  // without a right sibling
      if (right) {
        if (nodes_.empty() || nodes_.back().level != at.level || nodes_.back().index + 1 != at.index) break;
        sum = add(std::move(nodes_.back().sum), std::move(sum));
        nodes_.pop_back();
      } else if (!is_last) {
        break;
      }
      at = {at.index / 2, at.level + 1};
    }
    nodes_.push_back({at, std::move(sum)});
  }

  // The sums so far, by their leaves.
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }

  // The sum of all leaves. Throws UsageError if some are missing.
  T take() {
    if (nodes_.size() != 1 || !is_root(nodes_[0]))
      throw UsageError(concat("sum: expected all of ", leaves_, " leaves, found some"));
    T sum = std::move(nodes_[0].sum);
    nodes_.clear();
    return sum;
  }

 private:
  bool is_root(TreeNode at) const { return at.index == 0 && int64_t{1} << at.level >= leaves_; }

  int64_t leaves_;
  std::vector<Node> nodes_;
};

// The nodes that a process with leaves `begin` to `end` has of a sum over `leaves`.
inline std::vector<TreeNode> tree_nodes(int64_t leaves, int64_t begin, int64_t end) {
  TreeSum<char> sum(leaves);
  for (int64_t leaf = begin; leaf < end; ++leaf) sum.push({leaf, 0}, {}, [](char, char) { return char{}; });
  return {sum.nodes().begin(), sum.nodes().end()};
}

}  // namespace qkv

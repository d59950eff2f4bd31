#pragma once
// Data that only one rank of each node makes, such as a tokenized corpus. The others of the node receive it,
// so that no file has to be where all see it, or to be removed after a failure.

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "qkv/base/communicator.h"

namespace qkv::train {

class NodeShare {
 public:
  // Without other ranks.
  NodeShare() = default;
  explicit NodeShare(Communicator& ranks);

  // On the first rank of a node, what `make` returns, otherwise that of the first rank. Calls and types are
  // the same on all ranks of a node. T has members(function), which calls function(member...) with its
  // vectors and its int64_t numbers. The first rank keeps the vectors' elements in place until send().
  template <class T>
  T once(const std::function<T()>& make);
  bool is_first() const { return first_ == ranks_->rank(); }
  // Sends what once() has returned, on the first rank; it returns when the others have it.
  void send();

 private:
  template <class Element>
  void add(std::vector<Element>& vector) {
    if (is_first()) {
      number(std::ssize(vector));
      parts_.push_back(std::as_bytes(std::span(vector)));
    } else {
      int64_t size = 0;
      receive(std::as_writable_bytes(std::span(&size, 1)));
      vector.resize(static_cast<size_t>(size));
      receive(std::as_writable_bytes(std::span(vector)));
    }
  }
  void add(std::same_as<int64_t> auto& value) {
    if (is_first()) {
      number(value);
    } else {
      receive(std::as_writable_bytes(std::span(&value, 1)));
    }
  }
  void number(int64_t value);
  void receive(std::span<std::byte> bytes) { ranks_->receive(first_, bytes); }

  Communicator* ranks_ = &alone();
  int first_ = 0;            // rank of this node
  std::vector<int> others_;  // of this node, on the first
  std::vector<std::span<const std::byte>> parts_;
  std::deque<int64_t> numbers_;  // whose addresses stay
};

template <class T>
T NodeShare::once(const std::function<T()>& make) {
  T value;
  if (is_first()) value = make();
  if (!is_first() || !others_.empty()) {
    value.members([this](auto&... members) { (this->add(members), ...); });
  }
  return value;
}

// Without ranks, or by them.
template <class T>
T once_a_node(NodeShare* node, const std::function<T()>& make) {
  return node ? node->once(make) : make();
}

}  // namespace qkv::train

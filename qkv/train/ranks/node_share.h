#pragma once
// Data that only one rank of each node makes, such as a tokenized corpus. The others of the node receive it,
// so that no file has to be where all see it, or to be removed after a failure.

#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
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
  // vectors and its int64_t numbers. Elements of vectors are trivial, strings, vectors, or have members().
  // The first rank keeps a copy until send(): its caller may change the value, or drop parts of it.
  template <class T>
  T once(const std::function<T()>& make);
  bool is_first() const { return first_ == ranks_->rank(); }
  const Communicator& ranks() const { return *ranks_; }
  // Sends what once() has returned, on the first rank. It returns when all ranks of the node have called it.
  void send();

 private:
  template <class Element>
  void add(std::vector<Element>& vector) {
    if constexpr (!std::is_trivially_copyable_v<Element>) {
      std::vector<std::byte> bytes;
      if (is_first()) pack(vector, bytes);
      add(bytes);
      if (!is_first()) {
        std::span<const std::byte> rest = bytes;
        unpack(rest, vector);
      }
    } else {
      int64_t size = std::ssize(vector);
      add(size);
      vector.resize(static_cast<size_t>(size));
      add_bytes(std::as_writable_bytes(std::span(vector)));
    }
  }
  void add(std::same_as<int64_t> auto& value) { add_bytes(std::as_writable_bytes(std::span(&value, 1))); }
  template <class T>
  static void pack(T& value, std::vector<std::byte>& to) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      const auto bytes = std::as_bytes(std::span(&value, 1));
      to.insert(to.end(), bytes.begin(), bytes.end());
    } else if constexpr (requires { value.members([](auto&...) {}); }) {
      value.members([&to](auto&... members) { (pack(members, to), ...); });
    } else {
      auto size = static_cast<int64_t>(value.size());
      pack(size, to);
      for (auto& element : value) pack(element, to);
    }
  }
  template <class T>
  static void unpack(std::span<const std::byte>& from, T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      std::memcpy(&value, from.data(), sizeof(T));
      from = from.subspan(sizeof(T));
    } else if constexpr (requires { value.members([](auto&...) {}); }) {
      value.members([&from](auto&... members) { (unpack(from, members), ...); });
    } else {
      int64_t size = 0;
      unpack(from, size);
      value.resize(static_cast<size_t>(size));
      for (auto& element : value) unpack(from, element);
    }
  }
  // Keeps them for send(), or receives them.
  void add_bytes(std::span<std::byte> bytes);

  Communicator* ranks_ = &alone();
  int first_ = 0;            // rank of this node
  std::vector<int> others_;  // of this node, on the first
  std::vector<std::vector<std::byte>> parts_;
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

// Texts as a T of once().
struct SharedTexts {
  std::vector<std::string> texts;
  template <class Function>
  void members(const Function& function) {
    function(texts);
  }
};

// Without ranks, or by them.
template <class T>
T once_a_node(NodeShare* node, const std::function<T()>& make) {
  return node ? node->once(make) : make();
}

}  // namespace qkv::train

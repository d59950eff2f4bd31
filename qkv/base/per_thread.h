#pragma once
// One object of a type for each thread: scratch memory, caches.

#include <memory>
#include <utility>

namespace qkv {

namespace per_thread_detail {

struct Node {
  virtual ~Node() = default;
  std::unique_ptr<Node> next;
};

// Keeps the node until the thread ends. Throws std::bad_alloc.
void keep(std::unique_ptr<Node> node);

template <class T>
struct Holder final : Node {
  ~Holder() override { instance = nullptr; }
  T value{};
  static inline constinit thread_local Holder* instance = nullptr;
};

}  // namespace per_thread_detail

// The calling thread's T, constructed at the first call and destroyed with the thread. Replaces thread_local
// objects with destructors: the C library aborts if it has no memory to register one, while this throws
// std::bad_alloc.
template <class T>
T& per_thread() {
  using Holder = per_thread_detail::Holder<T>;
  if (!Holder::instance) {
    auto made = std::make_unique<Holder>();
    Holder* const instance = made.get();
    per_thread_detail::keep(std::move(made));
    Holder::instance = instance;
  }
  return Holder::instance->value;
}

}  // namespace qkv

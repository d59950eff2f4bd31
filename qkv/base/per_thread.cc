#include "qkv/base/per_thread.h"

#include <pthread.h>

#include <new>
#include <utility>

namespace qkv::per_thread_detail {
namespace {

// Each thread's first node.
pthread_key_t slot() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (::pthread_key_create(&made, [](void* first) { delete static_cast<Node*>(first); }) != 0)
      throw std::bad_alloc();
    return made;
  }();
  return key;
}

}  // namespace

void keep(std::unique_ptr<Node> node) {
  auto* const first = static_cast<Node*>(::pthread_getspecific(slot()));
  if (::pthread_setspecific(slot(), node.get()) != 0) throw std::bad_alloc();
  node.release()->next.reset(first);
}

}  // namespace qkv::per_thread_detail

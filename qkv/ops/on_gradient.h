#pragma once
// The gradients of leaves, each as soon as the backward pass has completed it.

#include <cstddef>
#include <functional>
#include <vector>

#include "qkv/ops/variable.h"

namespace qkv {

// During its lifetime, the next Tape::backward() on this thread calls ready(i) once for each of `leaves`:
// after the last operation, in reverse order, that has read the leaf or columns of it; at the end for leaves
// that no operation has read. ready() may take the gradient, and ends backward() if it throws.
class OnGradient {
 public:
  OnGradient(std::vector<Variable> leaves, std::function<void(size_t leaf)> ready);
  ~OnGradient();
  OnGradient(const OnGradient&) = delete;
  OnGradient& operator=(const OnGradient&) = delete;

 private:
  friend class Tape;
  std::vector<Variable> leaves_;
  std::function<void(size_t leaf)> ready_;
};

}  // namespace qkv

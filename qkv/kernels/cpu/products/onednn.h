#pragma once
// oneDNN's matrix product on the calling thread. onednn.cc is the one file that knows its API.

#include <signal.h>

#include <cstdint>
#include <optional>

#include "qkv/kernels/cpu/products/packed_matrix.h"
#include "qkv/kernels/instruction_set.h"

namespace qkv::kernels::onednn {

// c [m, n] (+)= a [m, k] b [k, n] (+ bias [n]). Each product costs oneDNN a compilation of 0.1 to 0.2 ms when
// it is first run, and is kept for the life of the process.
struct Product {
  int64_t m, n, k;
  bool bias, accumulate;
  // The layout of b, a and c having no gaps; none: a is the transpose of rows, and all have strides.
  std::optional<PackLayout> layout;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  friend bool operator==(const Product&, const Product&) = default;
};

// Runs inside a SignalsWait of the caller's thread and a OneThread of this one.
void run(const Product& product, const float* a, const void* b, const float* bias, float* c);

// Lets oneDNN use no instructions beyond these; SSE4.1 is the least it has. Throws UsageError where it has
// been used before.
void limit(InstructionSet set);

// Whether this machine's oneDNN has a fast kernel for PackLayout::slabs. They are asked for by name, not with
// format_tag::any: what that chooses depends on strides, and the bits of a row would with it.
bool runs_on_slabs();

// oneDNN asks OpenMP for the number of threads when it makes a primitive and when it runs one, and the answer
// has to be one.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Signals have to wait while oneDNN runs: its generated kernels point the stack register into the heap, which
// a handler then overwrites (uxlfoundation/oneDNN #4845, fixed after 3.11 by #4855). Signals that the code
// itself would raise pass. Once a product, on the caller's thread: those of parallel_for take no signals.
class SignalsWait {
 public:
  SignalsWait();
  ~SignalsWait();
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace qkv::kernels::onednn

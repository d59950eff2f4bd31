#pragma once
// oneDNN's matrix product on the calling thread. onednn.cc is the only file that uses its API.

#include <signal.h>

#include <cstdint>
#include <optional>

#include "qkv/kernels/cpu/products/packed_matrix.h"
#include "qkv/kernels/instruction_set.h"

namespace qkv::kernels::onednn {

// c [m, n] (+)= a [m, k] b [k, n] (+ bias [n]). oneDNN compiles each product on its first run, in 0.1 to 0.2
// ms; it is cached for the life of the process.
struct Product {
  int64_t m, n, k;
  bool bias, accumulate;
  // The layout of b, with contiguous a and c; none: a is the transpose of rows, and all have strides.
  std::optional<PackLayout> layout;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  friend bool operator==(const Product&, const Product&) = default;
};

// a and b are f32, or bf16 with PackLayout::bf16_slabs. Requires a SignalsWait on the caller's thread and a
// OneThread on this one.
void run(const Product& product, const void* a, const void* b, const float* bias, float* c);

// Limits oneDNN to these instructions; its minimum is SSE4.1. Does nothing on other processors than x86-64.
// Throws UsageError if it has been used before.
void limit(InstructionSet set);

// Whether this machine's oneDNN has a fast kernel for PackLayout::slabs, and for bf16_slabs. Layouts are
// requested by name: the choice of format_tag::any depends on strides, and with it the bits of a row would.
bool runs_on_slabs();
bool runs_on_bf16_slabs();

// oneDNN asks OpenMP for the number of threads when it creates and runs a primitive; the answer must be one.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Blocks signals while oneDNN runs: its generated kernels point the stack register into the heap, which a
// signal handler would overwrite (uxlfoundation/oneDNN #4845, fixed after 3.11 by #4855). Signals raised by
// the code itself pass. Used once per product, on the caller's thread; the threads of parallel_for block
// signals anyway.
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

// Matrix products on oneDNN. This is the one file that knows its API (2.x; 3.x differs).
//
// oneDNN runs each call on one thread; the threads are ours. The output is cut into panels of rows by blocks
// of columns whose bounds depend on the shapes only. Every shape that oneDNN sees costs a compilation (0.1 to
// 0.2 ms), and ragged batches bring a new number of rows each time, so panels have kPanelRows rows or, at the
// end, one of a few smaller counts: the rest of such a panel is scratch.

#include "qkv/kernels/matmul.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <dnnl.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/kernels/counters.h"
#include "qkv/kernels/cpu/products/gemm_nt.h"
#include "qkv/kernels/cpu/products/packed_matrix.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {
namespace {

using Md = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
constexpr auto kF32 = dnnl::memory::data_type::f32;

constexpr int64_t kPanelRows = 64;
constexpr std::array<int64_t, 9> kPanelCounts{1, 2, 4, 8, 16, 24, 32, 48, kPanelRows};

// Gradients of weights: the output block of one task, and how many rows are summed by one call.
constexpr int64_t kGradientRows = 128, kGradientCols = 512;
constexpr int64_t kChunk = 512, kChunkStep = 32;

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

// Around everything that oneDNN does on a thread: it asks OpenMP how many threads there are, when it makes a
// primitive and when it runs one, and the answer has to be one.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// And signals have to wait: with oneDNN 2.6.3 a handler that runs in the middle of a product leaves the heap
// destroyed (its generated code seems to keep values where the handler's frame is put). Those that the code
// itself would raise pass. Once a call, on the caller's thread: those of parallel_for take no signals.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&blocked, own);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

Md row_major(int64_t rows, int64_t cols, int64_t stride) { return Md({rows, cols}, kF32, Dims{stride, 1}); }

dnnl::matmul::primitive_desc describe(const Md& a, const Md& b, bool bias, const Md& c, bool accumulate) {
  dnnl::primitive_attr attributes;
  // oneDNN's own scratch belongs to the thread that made a primitive, and these run on several at once.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  const Md bias_md({1, c.dims()[1]}, kF32, Dims{c.dims()[1], 1});
  const auto description = bias ? dnnl::matmul::desc(a, b, bias_md, c) : dnnl::matmul::desc(a, b, c);
  return {description, attributes, engine()};
}

// PackLayout::slabs.
Md slabs(int64_t rows, int64_t cols) { return Md({rows, cols}, kF32, dnnl::memory::format_tag::BA16a64b); }

Md description_of(PackLayout layout, int64_t rows, int64_t cols) {
  return layout == PackLayout::slabs ? slabs(rows, cols) : row_major(rows, cols, cols);
}

// What a compiled product is known by.
struct Key {
  int64_t m, n, k;
  bool bias, accumulate;
  // How the right-hand side lies; none: in rows with a stride, and the left-hand side is transposed.
  std::optional<PackLayout> layout;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // where they are not the columns
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t value = 0;
    for (const int64_t number : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride,
                                 int64_t{key.bias} * 2 + int64_t{key.accumulate},
                                 int64_t{key.layout ? static_cast<int>(*key.layout) + 1 : 0}}) {
      value = (value ^ static_cast<size_t>(number)) * 0x9E3779B97F4A7C15u;
      value ^= value >> 29;
    }
    return value;
  }
};

// Scratch of this thread, grown as needed, one piece for each use.
enum class Scratch { left, right, result, library };

float* scratch(Scratch use, int64_t count) {
  struct Buffer {
    Storage memory;
    int64_t count = 0;
  };
  thread_local std::array<Buffer, 4> buffers;
  Buffer& buffer = buffers[static_cast<size_t>(use)];
  if (buffer.count < count) {
    const MemoryScope memory(MemoryUse::scratch);
    buffer = {allocate(static_cast<size_t>(count) * sizeof(float)), count};
  }
  return reinterpret_cast<float*>(buffer.memory.get());
}

struct Product {
  dnnl::matmul primitive;
  Md a, b, bias, c, work;

  explicit Product(const dnnl::matmul::primitive_desc& description)
      : primitive(description),
        a(description.src_desc()),
        b(description.weights_desc()),
        bias(description.bias_desc()),
        c(description.dst_desc()),
        work(description.scratchpad_desc()) {}

  // Points an operand's memory object at numbers, and counts it in.
  static void point(dnnl::memory& memory, const Md& md, const void* data, int argument,
                    std::array<dnnl_exec_arg_t, 5>& arguments, int& count) {
    void* const numbers = const_cast<void*>(data);
    if (memory) {
      memory.set_data_handle(numbers);
    } else {
      memory = dnnl::memory(md, engine(), numbers);
    }
    arguments[static_cast<size_t>(count++)] = {argument, memory.get()};
  }

  void run(const float* a_data, const void* b_data, const float* bias_data, float* c_data) const {
    // Making the library's objects takes as long as a small product does: they are made once a thread.
    struct Operands {
      dnnl::memory a, b, bias, c, work;
    };
    thread_local std::unordered_map<const Product*, Operands> of_products;
    Operands& operands = of_products[this];
    std::array<dnnl_exec_arg_t, 5> arguments{};
    int count = 0;
    point(operands.a, a, a_data, DNNL_ARG_SRC, arguments, count);
    point(operands.b, b, b_data, DNNL_ARG_WEIGHTS, arguments, count);
    point(operands.c, c, c_data, DNNL_ARG_DST, arguments, count);
    if (bias_data) point(operands.bias, bias, bias_data, DNNL_ARG_BIAS, arguments, count);
    if (const size_t bytes = work.get_size(); bytes > 0) {
      const auto floats = static_cast<int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
      point(operands.work, work, scratch(Scratch::library, floats), DNNL_ARG_SCRATCHPAD, arguments, count);
    }
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), stream().get(), count, arguments.data()),
                            "oneDNN: a product failed");
  }
};

std::atomic<uint64_t> products_compiled{0};

// Compiled products live as long as the process; there are few, see above. One thread compiles at a time: two
// would often compile the same, and what oneDNN shares between them is not for ThreadSanitizer to see.
const Product& product(const Key& key, const std::function<dnnl::matmul::primitive_desc()>& make) {
  static std::mutex compiling;
  static std::shared_mutex mutex;
  static auto* products = new std::unordered_map<Key, Product, KeyHash>;
  const auto find = [&key]() -> const Product* {
    const std::shared_lock lock(mutex);
    const auto found = products->find(key);
    return found == products->end() ? nullptr : &found->second;
  };
  if (const Product* known = find()) return *known;
  const std::lock_guard one(compiling);
  if (const Product* known = find()) return *known;
  Product made(make());
  products_compiled.fetch_add(1, std::memory_order_relaxed);
  const std::unique_lock lock(mutex);
  return products->try_emplace(key, std::move(made)).first->second;
}

void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, static_cast<size_t>(cols) * sizeof(float));
  }
}

}  // namespace

uint64_t compiled_products() { return products_compiled.load(std::memory_order_relaxed); }

bool runs_on_slabs() {
  static const bool answer = [] {
    try {
      const SignalsWait signals;
      const OneThread one_thread;
      const std::string name =
          describe(row_major(kPanelRows, 64, 64), slabs(64, 64), false, row_major(kPanelRows, 64, 64), false)
              .impl_info_str();
      return name.starts_with("brg");
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return answer;
}

void matmul(const Matrix& a, const PackedMatrix& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate) {
  const PackedMatrix::Impl& packed = *b.impl();
  const bool add = accumulate == Accumulate::yes;
  count_macs(static_cast<uint64_t>(a.rows * packed.rows * packed.cols));
  count_numbers(a.rows * packed.rows + touches(accumulate) * a.rows * packed.cols);
  count_bytes(packed.rows * packed.cols * static_cast<int64_t>(size_of(packed.form)));
  if (packed.layout == PackLayout::kept) return gemm_nt(a, packed, bias, c, accumulate);
  const int64_t panels = (a.rows + kPanelRows - 1) / kPanelRows;
  const int64_t blocks = static_cast<int64_t>(packed.blocks.size());
  const auto task = [&](int64_t index) {
    const PackedMatrix::Impl::Block& block = packed.blocks[static_cast<size_t>(index / panels)];
    const int64_t first_row = index % panels * kPanelRows;
    const int64_t rows = std::min(kPanelRows, a.rows - first_row);
    // The kernel for plain rows sums in another order when there are few of them.
    const int64_t run_rows =
        packed.layout == PackLayout::rows ? kPanelRows : *std::ranges::lower_bound(kPanelCounts, rows);
    const float* a_data = a.data + first_row * a.stride;
    float* const c_data = c.data + first_row * c.stride + block.first_col;
    // oneDNN's fast kernel takes operands without gaps only.
    if (run_rows != rows || a.stride != packed.rows) {
      float* tight = scratch(Scratch::left, run_rows * packed.rows);
      copy_rows(a_data, a.stride, tight, packed.rows, rows, packed.rows);
      std::fill(tight + rows * packed.rows, tight + run_rows * packed.rows, 0.0f);
      a_data = tight;
    }
    const bool direct = run_rows == rows && c.stride == block.cols;
    float* result = direct ? c_data : scratch(Scratch::result, run_rows * block.cols);
    if (add && !direct) {
      copy_rows(c_data, c.stride, result, block.cols, rows, block.cols);
      std::fill(result + rows * block.cols, result + run_rows * block.cols, 0.0f);
    }
    const Product& compiled =
        product({run_rows, block.cols, packed.rows, bias != nullptr, add, packed.layout}, [&] {
          return describe(row_major(run_rows, packed.rows, packed.rows),
                          description_of(packed.layout, packed.rows, block.cols), bias != nullptr,
                          row_major(run_rows, block.cols, block.cols), add);
        });
    compiled.run(a_data, block.data.get(), bias ? bias + block.first_col : nullptr, result);
    if (!direct) copy_rows(result, block.cols, c_data, c.stride, rows, block.cols);
  };
  const SignalsWait signals;
  parallel_for(panels * blocks, 1, [&](int64_t begin, int64_t end) {
    const OneThread one_thread;
    for (int64_t index = begin; index < end; ++index) task(index);
  });
}

void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate) {
  count_macs(static_cast<uint64_t>(a.rows * a.cols * b.cols));
  count_numbers(a.rows * (a.cols + b.cols) + touches(accumulate) * a.cols * b.cols);
  if (a.rows == 0) {
    if (accumulate == Accumulate::no) {
      for (int64_t row = 0; row < c.rows; ++row) std::fill_n(c.data + row * c.stride, c.cols, 0.0f);
    }
    return;
  }
  const int64_t row_blocks = (c.rows + kGradientRows - 1) / kGradientRows;
  const int64_t col_blocks = (c.cols + kGradientCols - 1) / kGradientCols;
  const auto task = [&](int64_t index) {
    const int64_t first_row = index / col_blocks * kGradientRows,
                  first_col = index % col_blocks * kGradientCols;
    const int64_t rows = std::min(kGradientRows, c.rows - first_row);
    const int64_t cols = std::min(kGradientCols, c.cols - first_col);
    bool add = accumulate == Accumulate::yes;
    float* c_data = c.data + first_row * c.stride + first_col;
    const auto run = [&](const float* a_data, int64_t a_stride, const float* b_data, int64_t b_stride,
                         int64_t depth) {
      const Key key{rows, cols, depth, false, add, std::nullopt, a_stride, b_stride, c.stride};
      const Product& compiled = product(key, [&] {
        return describe(Md({rows, depth}, kF32, Dims{1, a_stride}), row_major(depth, cols, b_stride), false,
                        row_major(rows, cols, c.stride), add);
      });
      compiled.run(a_data, b_data, nullptr, c_data);
      add = true;
    };
    int64_t done = 0;
    while (a.rows - done >= kChunkStep) {
      const int64_t depth = std::min(kChunk, (a.rows - done) / kChunkStep * kChunkStep);
      run(a.data + done * a.stride + first_row, a.stride, b.data + done * b.stride + first_col, b.stride,
          depth);
      done += depth;
    }
    if (const int64_t rest = a.rows - done; rest > 0) {  // filled up with rows of zeros
      float* a_rest = scratch(Scratch::left, kChunkStep * rows);
      float* b_rest = scratch(Scratch::right, kChunkStep * cols);
      copy_rows(a.data + done * a.stride + first_row, a.stride, a_rest, rows, rest, rows);
      copy_rows(b.data + done * b.stride + first_col, b.stride, b_rest, cols, rest, cols);
      std::fill(a_rest + rest * rows, a_rest + kChunkStep * rows, 0.0f);
      std::fill(b_rest + rest * cols, b_rest + kChunkStep * cols, 0.0f);
      run(a_rest, rows, b_rest, cols, kChunkStep);
    }
  };
  const SignalsWait signals;
  parallel_for(row_blocks * col_blocks, 1, [&](int64_t begin, int64_t end) {
    const OneThread one_thread;
    for (int64_t index = begin; index < end; ++index) task(index);
  });
}

}  // namespace qkv::kernels

#include "qkv/kernels/cpu/products/onednn.h"

#include <omp.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <dnnl.hpp>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/per_thread.h"
#include "qkv/base/reserved_memory.h"
#include "qkv/kernels/cpu/products/scratch.h"
#include "qkv/kernels/libraries.h"

static_assert(DNNL_VERSION_MAJOR == 2,
              "qkv needs oneDNN 2.x (Debian 12: libdnnl-dev); the API of 3.x differs");

namespace qkv::kernels {
namespace onednn {
namespace {

using Md = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
constexpr auto kF32 = dnnl::memory::data_type::f32, kBf16 = dnnl::memory::data_type::bf16;

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

struct Stream {
  dnnl::stream own{engine()};
};

Md row_major(int64_t rows, int64_t cols, int64_t stride, dnnl::memory::data_type type = kF32) {
  return Md({rows, cols}, type, Dims{stride, 1});
}

Md packed(PackLayout layout, int64_t rows, int64_t cols) {
  return layout == PackLayout::bf16_slabs ? Md({rows, cols}, kBf16, dnnl::memory::format_tag::BA16a64b2a)
                                          : Md({rows, cols}, kF32, dnnl::memory::format_tag::BA16a64b);
}

dnnl::memory::data_type type_of(PackLayout layout) { return layout == PackLayout::bf16_slabs ? kBf16 : kF32; }

dnnl::matmul::primitive_desc describe(const Product& p) {
  dnnl::primitive_attr attributes;
  // oneDNN's own scratch belongs to the thread that created a primitive, but primitives run on several
  // threads at once.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  const Md a =
      p.layout ? row_major(p.m, p.k, p.k, type_of(*p.layout)) : Md({p.m, p.k}, kF32, Dims{1, p.a_stride});
  const Md b = p.layout ? packed(*p.layout, p.k, p.n) : row_major(p.k, p.n, p.b_stride);
  const Md c = row_major(p.m, p.n, p.layout ? p.n : p.c_stride);
  const Md bias({1, p.n}, kF32, Dims{p.n, 1});
  const auto description = p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return {description, attributes, engine()};
}

constexpr size_t kRoom = size_t{8} << 20;  // far more than the code of a product takes

// Calls the library; converts its errors to ours or std::bad_alloc.
template <class Action>
auto guarded(const char* what, const Action& action) {
  try {
    return action();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw Error(concat("oneDNN cannot ", what, ": ", error.what()));
  }
}

struct Hash {
  size_t operator()(const Product& p) const {
    size_t value = 0;
    for (const int64_t number :
         {p.m, p.n, p.k, p.a_stride, p.b_stride, p.c_stride, int64_t{p.bias} * 2 + int64_t{p.accumulate},
          int64_t{p.layout ? static_cast<int>(*p.layout) + 1 : 0}}) {
      value = (value ^ static_cast<size_t>(number)) * 0x9E3779B97F4A7C15u;
      value ^= value >> 29;
    }
    return value;
  }
};

struct Compiled {
  dnnl::matmul primitive;
  Md a, b, bias, c, work;

  explicit Compiled(const dnnl::matmul::primitive_desc& description)
      : primitive(description),
        a(description.src_desc()),
        b(description.weights_desc()),
        bias(description.bias_desc()),
        c(description.dst_desc()),
        work(description.scratchpad_desc()) {}

  // Sets an operand's memory object to `data`, and appends it to the arguments.
  static void point(dnnl::memory& memory, const Md& md, const void* data, int argument,
                    std::array<dnnl_exec_arg_t, 5>& arguments, int& count) {
    void* const address = const_cast<void*>(data);
    if (memory) {
      memory.set_data_handle(address);
    } else {
      memory = dnnl::memory(md, engine(), address);
    }
    arguments[static_cast<size_t>(count++)] = {argument, memory.get()};
  }

  // Creating the library's objects takes as long as a small product, so they are created once per thread.
  struct Operands {
    dnnl::memory a, b, bias, c, work;
    bool have_run = false;
  };
  // Of the products that a thread has run. Bounded: the shapes of training batches keep changing.
  struct OperandsOfProducts {
    std::unordered_map<const Compiled*, Operands> by_product;

    Operands& of(const Compiled* product) {
      constexpr size_t kMaxProducts = 1024;
      if (by_product.size() >= kMaxProducts && !by_product.contains(product)) by_product.clear();
      return by_product[product];
    }
  };

  void run(const void* a_data, const void* b_data, const float* bias_data, float* c_data) const {
    Operands& operands = per_thread<OperandsOfProducts>().of(this);
    // The first run creates objects, and compiles code that products share.
    std::optional<ReservedMemory> reserved;
    if (!operands.have_run) reserved.emplace(kRoom);
    std::array<dnnl_exec_arg_t, 5> arguments{};
    int count = 0;
    point(operands.a, a, a_data, DNNL_ARG_SRC, arguments, count);
    point(operands.b, b, b_data, DNNL_ARG_WEIGHTS, arguments, count);
    point(operands.c, c, c_data, DNNL_ARG_DST, arguments, count);
    if (bias_data) point(operands.bias, bias, bias_data, DNNL_ARG_BIAS, arguments, count);
    if (const size_t bytes = work.get_size(); bytes > 0)
      point(operands.work, work, scratch(Scratch::library, bytes), DNNL_ARG_SCRATCHPAD, arguments, count);
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), per_thread<Stream>().own.get(), count, arguments.data()),
        "oneDNN: a product failed");
    operands.have_run = true;
  }
};

std::atomic<uint64_t> products_compiled{0};

// Compiled products live as long as the process; there are few, see slabs.cc. Only one thread compiles at a
// time: two would often compile the same product, and ThreadSanitizer cannot see oneDNN's internal
// synchronisation.
const Compiled& compiled(const Product& product) {
  static std::mutex compiling;
  static std::shared_mutex mutex;
  static auto* products = new std::unordered_map<Product, Compiled, Hash>;
  const auto find = [&product]() -> const Compiled* {
    const std::shared_lock lock(mutex);
    const auto found = products->find(product);
    return found == products->end() ? nullptr : &found->second;
  };
  if (const Compiled* known = find()) return *known;
  const std::lock_guard one(compiling);
  if (const Compiled* known = find()) return *known;
  const ReservedMemory reserved(kRoom);
  Compiled made = guarded("compile a product", [&] { return Compiled(describe(product)); });
  products_compiled.fetch_add(1, std::memory_order_relaxed);
  const std::unique_lock lock(mutex);
  return products->try_emplace(product, std::move(made)).first->second;
}

}  // namespace

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

SignalsWait::SignalsWait() {
  sigset_t blocked;
  ::sigfillset(&blocked);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&blocked, own);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

SignalsWait::~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void run(const Product& product, const void* a, const void* b, const float* bias, float* c) {
  const Compiled& code = compiled(product);
  guarded("compute a product", [&] { code.run(a, b, bias, c); });
}

void limit(InstructionSet set) {
#if defined(__x86_64__)
  const auto isa = [set] {
    switch (set) {
      case InstructionSet::avx2:
        return dnnl::cpu_isa::avx2;
      case InstructionSet::avx512:
        return dnnl::cpu_isa::avx512_core;
      case InstructionSet::avx512_vnni:
        return dnnl::cpu_isa::avx512_core_bf16;  // f32 products do not distinguish the two
      case InstructionSet::amx:
        return dnnl::cpu_isa::all;
      default:
        return dnnl::cpu_isa::sse41;
    }
  }();
  if (dnnl::set_max_cpu_isa(isa) != dnnl::status::success) {
    throw UsageError(concat("QKV_ISA: expected to limit oneDNN to ", name_of(set),
                            ", found that this process has used it before"));
  }
#else
  static_cast<void>(set);  // oneDNN can be limited on x86-64 only
#endif
}

namespace {

// Whether oneDNN's fast kernels, which it calls brgemm, compute products of this layout.
bool is_fast(PackLayout layout) {
  try {
    const SignalsWait signals;
    const OneThread one_thread;
    const ReservedMemory reserved(kRoom);
    const std::string name = describe({64, 64, 64, false, false, layout}).impl_info_str();
    return name.starts_with("brg");
  } catch (const dnnl::error& error) {
    // The answer is cached and determines the order of sums.
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    return false;
  }
}

}  // namespace

bool runs_on_slabs() {
  static const bool answer = is_fast(PackLayout::slabs);
  return answer;
}

bool runs_on_bf16_slabs() {
  static const bool answer = is_fast(PackLayout::bf16_slabs);
  return answer;
}

}  // namespace onednn

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return concat(version->major, ".", version->minor, ".", version->patch);
}

uint64_t cpu::compiled_products() { return onednn::products_compiled.load(std::memory_order_relaxed); }

}  // namespace qkv::kernels

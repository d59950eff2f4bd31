#include "qkv/kernels/counters.h"

#include <atomic>

namespace qkv::kernels {
namespace {
std::atomic<uint64_t> macs_so_far{0};
std::atomic<uint64_t> bytes_so_far{0};
}  // namespace

void count_macs(uint64_t macs) { macs_so_far.fetch_add(macs, std::memory_order_relaxed); }
void count_bytes(int64_t bytes) {
  bytes_so_far.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
}
void count_elements(int64_t elements) { count_bytes(elements * static_cast<int64_t>(sizeof(float))); }
uint64_t counted_macs() { return macs_so_far.load(std::memory_order_relaxed); }
uint64_t counted_bytes() { return bytes_so_far.load(std::memory_order_relaxed); }

}  // namespace qkv::kernels

#include "qkv/kernels/cpu/attention_tasks.h"

#include <cassert>
#include <new>
#include <vector>

#include "qkv/base/parallel.h"

namespace qkv::kernels {
namespace {

// Multiplications worth handing to a thread.
constexpr int64_t kPieceWork = int64_t{1} << 18;

}  // namespace

void for_attention_tasks(const AttentionShape& shape, int64_t block_queries, bool one_thread,
                         const std::function<void(const AttentionTask*, size_t)>& body) {
  thread_local std::vector<AttentionTask> task_memory;
  thread_local std::vector<size_t> piece_memory;
  auto& tasks = task_memory;
  auto& pieces = piece_memory;  // the first task of each
  tasks.clear();
  pieces.clear();
  int64_t work = kPieceWork;
  for (int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    const int64_t queries = shape.query_offsets[sequence + 1] - shape.query_offsets[sequence];
    const int64_t keys = shape.key_offsets[sequence + 1] - shape.key_offsets[sequence];
    if (block_queries > 0 && queries == 0) continue;
    const int64_t block = block_queries > 0 ? block_queries : std::max<int64_t>(queries, 1);
    for (int64_t head = 0; head < shape.heads; ++head) {
      // Uncut, a sequence of keys without queries is a task too: its keys have a gradient, of zeros.
      for (int64_t first = 0; first < std::max<int64_t>(queries, 1); first += block) {
        const int64_t count = std::min(block, queries - first);
        if (work >= kPieceWork && (!one_thread || pieces.empty())) {
          pieces.push_back(tasks.size());
          work = 0;
        }
        tasks.push_back({sequence, head, first, count});
        work += (count * keys + 4 * (count + keys)) * (shape.d_k + shape.d_v);
      }
    }
  }
  if (tasks.empty()) return;
  pieces.push_back(tasks.size());
  tasks.push_back(tasks.back());
  parallel_for(static_cast<int64_t>(pieces.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    const size_t first = pieces[static_cast<size_t>(begin)], last = pieces[static_cast<size_t>(end)];
    body(tasks.data() + first, last - first);
  });
}

uint64_t attention_pairs(const AttentionShape& shape) {
  int64_t pairs = 0;
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t queries = shape.query_offsets[s + 1] - shape.query_offsets[s];
    const int64_t keys = shape.key_offsets[s + 1] - shape.key_offsets[s];
    if (shape.causal) {
      // The last query sees all keys, each one before it one key less.
      const int64_t seeing = std::min(queries, keys);
      pairs += seeing * keys - seeing * (seeing - 1) / 2;
    } else {
      pairs += queries * keys;
    }
  }
  return static_cast<uint64_t>(pairs * shape.heads);
}

int64_t query_numbers(const AttentionShape& shape) {
  return int64_t{shape.query_offsets[shape.sequences]} * shape.heads * (shape.d_k + shape.d_v);
}

int64_t key_numbers(const AttentionShape& shape) {
  int64_t keys = 0;
  for (int64_t s = 0; s < shape.sequences; ++s) {
    if (shape.query_offsets[s + 1] > shape.query_offsets[s])
      keys += shape.key_offsets[s + 1] - shape.key_offsets[s];
  }
  return keys * shape.heads * (shape.d_k + shape.d_v);
}

AttentionScratch& AttentionScratch::of_this_thread() {
  thread_local AttentionScratch scratch;
  return scratch;
}

void AttentionScratch::start(int64_t floats) {
  const int64_t needed = floats + 32 * kAlign;
  if (needed > capacity_) {
    capacity_ = 0;
    memory_ = hwy::AllocateAligned<float>(static_cast<size_t>(needed));
    if (memory_ == nullptr) throw std::bad_alloc();
    capacity_ = needed;
  }
  used_ = 0;
}

float* AttentionScratch::take(int64_t floats) {
  float* part = memory_.get() + used_;
  used_ += (floats + kAlign - 1) / kAlign * kAlign;
  assert(used_ <= capacity_);
  return part;
}

}  // namespace qkv::kernels

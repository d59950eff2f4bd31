#include "qkv/kernels/cpu/attention/attention_tasks.h"

#include <cassert>
#include <new>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/base/per_thread.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels {
namespace {

// Minimum number of multiplications per piece of work.
constexpr int64_t kPieceWork = int64_t{1} << 18;

// The backward pass splits sequences of at least this many keys, if there are few heads, into parts of at
// least this length.
constexpr int64_t kCutKeys = 1024;
// Enough parts over all heads to keep typical machines busy; also limits the number of separate partial
// gradients of the queries.
constexpr int64_t kEnoughParts = 8;

int64_t parts_of_keys(const AttentionShape& shape, int64_t keys) {
  const int64_t key_heads = shape.heads / shape.query_heads_per_key();
  const int64_t wanted = (kEnoughParts + key_heads - 1) / key_heads;
  const int64_t affordable = 1 + kEnoughParts / shape.heads;
  return std::max<int64_t>(1, std::min({wanted, affordable, keys / kCutKeys}));
}

}  // namespace

AttentionPlan& AttentionPlan::of_this_thread() { return per_thread<AttentionPlan>(); }

void AttentionPlan::clear() {
  tasks_.clear();
  pieces_.clear();
  piece_work_ = kPieceWork;
}

void AttentionPlan::add(const AttentionTask& task, int64_t work) {
  if (piece_work_ >= kPieceWork) {
    pieces_.push_back(tasks_.size());
    piece_work_ = 0;
  }
  tasks_.push_back(task);
  piece_work_ += work;
}

void AttentionPlan::end() {
  pieces_.push_back(tasks_.size());
  if (!tasks_.empty()) tasks_.push_back(tasks_.back());
}

void AttentionPlan::forward(const AttentionShape& shape) {
  clear();
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t queries = shape.query_offsets[s + 1] - shape.query_offsets[s];
    const int64_t keys = shape.key_offsets[s + 1] - shape.key_offsets[s];
    for (int64_t head = 0; head < shape.heads; ++head) {
      const int64_t parts = (queries + kForwardQueries - 1) / kForwardQueries;
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t first = queries * part / parts, count = queries * (part + 1) / parts - first;
        add({s, head, first, count}, (count * keys + 4 * (count + keys)) * (shape.d_k + shape.d_v));
      }
    }
  }
  end();
}

void AttentionPlan::backward(const AttentionShape& shape, bool distances) {
  clear();
  const int64_t group = shape.query_heads_per_key(), key_heads = shape.heads / group;
  int64_t partial_floats = 0;
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t queries = shape.query_offsets[s + 1] - shape.query_offsets[s];
    const int64_t keys = shape.key_offsets[s + 1] - shape.key_offsets[s];
    const int64_t parts = parts_of_keys(shape, keys);
    const int64_t size = std::max<int64_t>(1, (keys + parts - 1) / parts);
    const int64_t part_keys = parts == 1 ? size : (size + kTileKeys - 1) / kTileKeys * kTileKeys;
    for (int64_t head = 0; head < key_heads; ++head) {
      // A sequence of keys without queries is a task too, to zero the keys' gradients.
      for (int64_t first = 0; first < std::max<int64_t>(keys, 1); first += part_keys) {
        const int64_t count = std::min(part_keys, keys - first);
        add({s, head, first, count},
            2 * group * (queries * count + 4 * (queries + count)) * (shape.d_k + shape.d_v));
        if (first > 0) partial_floats += group * queries * shape.d_k;
      }
    }
  }
  end();
  if (distances) keep_distances(shape);
  if (partial_floats == 0) return;
  if (partial_floats > partial_capacity_) {
    partial_capacity_ = 0;
    partials_ = hwy::AllocateAligned<float>(static_cast<size_t>(partial_floats));
    if (partials_ == nullptr) throw std::bad_alloc();
    partial_capacity_ = partial_floats;
  }
  float* partial = partials_.get();
  for (AttentionTask& task : tasks_) {
    if (task.first == 0) continue;
    task.partial = partial;
    const int64_t queries = shape.query_offsets[task.sequence + 1] - shape.query_offsets[task.sequence];
    if (&task != &tasks_.back()) partial += group * queries * shape.d_k;
  }
}

void AttentionPlan::run(const std::function<void(const AttentionTask*, size_t)>& body) const {
  parallel_for(static_cast<int64_t>(pieces_.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    const size_t first = pieces_[static_cast<size_t>(begin)], last = pieces_[static_cast<size_t>(end)];
    body(tasks_.data() + first, last - first);
  });
}

void AttentionPlan::run_on_one_thread(const std::function<void(const AttentionTask*, size_t)>& body) const {
  if (!tasks_.empty()) body(tasks_.data(), tasks_.size() - 1);
}

void AttentionPlan::add_partials(const AttentionShape& shape, float* query_gradient, int64_t stride) const {
  const int64_t group = shape.query_heads_per_key(), d_k = shape.d_k;
  constexpr int64_t kRows = 256;
  for (size_t t = 0; t + 1 < tasks_.size(); ++t) {
    const AttentionTask& task = tasks_[t];
    if (task.partial == nullptr) continue;
    const AttentionHead head(shape, task.sequence);
    const int64_t from = std::min(head.first_query_of(task.first, 0), head.queries);
    parallel_for(head.queries - from, kRows, [&](int64_t begin, int64_t end) {
      for (int64_t g = 0; g < group; ++g) {
        for (int64_t i = from + begin; i < from + end; ++i) {
          const float* share = task.partial + (g * head.queries + i) * d_k;
          float* to = query_gradient + (head.first_query + i) * stride + (task.head * group + g) * d_k;
          for (int64_t c = 0; c < d_k; ++c) to[c] += share[c];
        }
      }
    });
  }
}

void AttentionPlan::keep_distances(const AttentionShape& shape) {
  const int64_t group = shape.query_heads_per_key();
  const auto size = [&](const AttentionTask& task) {
    return group * (AttentionHead(shape, task.sequence).queries + task.count);
  };
  int64_t floats = 0;
  for (size_t t = 0; t + 1 < tasks_.size(); ++t) floats += size(tasks_[t]);
  distances_.assign(static_cast<size_t>(floats), 0.0f);
  float* next = distances_.data();
  for (size_t t = 0; t + 1 < tasks_.size(); ++t) {
    tasks_[t].distances = next;
    next += size(tasks_[t]);
  }
}

void AttentionPlan::add_distances(const AttentionShape& shape, float* gradient) const {
  const int64_t group = shape.query_heads_per_key();
  for (size_t t = 0; t + 1 < tasks_.size(); ++t) {
    const AttentionTask& task = tasks_[t];
    const AttentionHead head(shape, task.sequence);
    const int64_t width = head.queries + task.count;
    for (int64_t g = 0; g < group; ++g) {
      const float* share = task.distances + g * width;
      float* to = gradient + (task.head * group + g) * shape.relative.head_stride + shape.relative.zero +
                  task.first - (head.queries - 1 + head.position);
      for (int64_t n = 0; n + 1 < width; ++n) to[n] += share[n];
    }
  }
}

int64_t cpu::attention_key_group() { return kTileKeys; }

AttentionScratch& AttentionScratch::of_this_thread() { return per_thread<AttentionScratch>(); }

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

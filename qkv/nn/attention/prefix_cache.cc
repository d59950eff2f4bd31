#include "qkv/nn/attention/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace qkv::nn {
namespace {

int64_t common_beginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

void PrefixCache::limit(int64_t bytes) {
  budget_ = bytes;
  for (; bytes_ > budget_ && !entries_.empty(); entries_.pop_back()) bytes_ -= entries_.back().bytes;
}

void PrefixCache::keep(std::span<const int32_t> ids, const DecoderState& state) {
  const int64_t positions = std::ssize(ids);
  if (positions == 0 || state.bytes() > budget_ || !state.can_share(positions)) return;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (common_beginning(entry->ids, ids) < positions) continue;
    return entries_.splice(entries_.begin(), entries_, entry);  // already cached
  }
  DecoderState shared = state.share(positions);
  const int64_t bytes = shared.bytes();
  // Cached prompts that are prefixes of this one are redundant, unless its windows have passed them.
  std::erase_if(entries_, [&](const Entry& entry) {
    const int64_t common = std::ssize(entry.ids);
    const bool covered = common_beginning(entry.ids, ids) == common && shared.can_share(common);
    if (covered) bytes_ -= entry.bytes;
    return covered;
  });
  entries_.push_front({{ids.begin(), ids.end()}, std::move(shared), bytes});
  bytes_ += bytes;
  limit(budget_);
}

std::optional<PrefixCache::Found> PrefixCache::find(std::span<const int32_t> ids) {
  auto best = entries_.end();
  int64_t longest = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const int64_t common = common_beginning(entry->ids, ids);
    if (common <= longest || !entry->state.can_share(common)) continue;
    best = entry;
    longest = common;
  }
  if (best == entries_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, best);
  return Found{longest, best->state.share(longest)};
}

}  // namespace qkv::nn

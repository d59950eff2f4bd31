#include "qkv/search/batches.h"

#include <algorithm>
#include <numeric>

#include "qkv/base/error.h"

namespace qkv::search {

std::vector<std::vector<size_t>> batches_by_length(std::span<const int64_t> lengths, int64_t budget) {
  if (budget < 1) throw UsageError(concat("batch_tokens: expected at least 1, found ", budget));
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<size_t>> batches;
  int64_t tokens = 0;
  for (const size_t i : order) {
    if (batches.empty() || tokens + lengths[i] > budget) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(i);
    tokens += lengths[i];
  }
  return batches;
}

Ragged pack_ragged(std::span<const Ids> sequences) {
  std::vector<int32_t> ids, lengths;
  for (const Ids sequence : sequences) {
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    lengths.push_back(static_cast<int32_t>(sequence.size()));
  }
  return {Tensor::from(ids, {static_cast<int64_t>(ids.size())}), Offsets::of_lengths(lengths)};
}

}  // namespace qkv::search

#include "qkv/data/batches_by_length.h"

#include <algorithm>
#include <numeric>

#include "qkv/base/error.h"

namespace qkv::data {

std::vector<std::vector<size_t>> batches_by_length(std::span<const int64_t> lengths, int64_t batch_tokens) {
  if (batch_tokens < 1) throw UsageError(concat("batch_tokens: expected at least 1, found ", batch_tokens));
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<size_t>> batches;
  int64_t tokens = 0;
  for (const size_t i : order) {
    if (batches.empty() || tokens + lengths[i] > batch_tokens) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(i);
    tokens += lengths[i];
  }
  return batches;
}

}  // namespace qkv::data

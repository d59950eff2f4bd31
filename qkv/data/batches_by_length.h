#pragma once
// Cuts sequences into batches of similar lengths.

#include <cstdint>
#include <span>
#include <vector>

namespace qkv::data {

// Indices of sequences, longest first and equal ones in their order, cut where a batch would hold more than
// `batch_tokens` tokens; a longer sequence is a batch of its own. Longest first: the peak of memory comes at
// once. Throws UsageError for a budget below 1.
std::vector<std::vector<size_t>> batches_by_length(std::span<const int64_t> lengths, int64_t batch_tokens);

}  // namespace qkv::data

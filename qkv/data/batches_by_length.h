#pragma once
// Groups sequences into batches of similar lengths.

#include <cstdint>
#include <span>
#include <vector>

namespace qkv::data {

// Indices of the sequences, longest first (ties in input order), split into batches of at most `batch_tokens`
// tokens; a longer sequence is a batch of its own. Longest first, so that memory peaks at once. Throws
// UsageError for a budget below 1.
std::vector<std::vector<size_t>> batches_by_length(std::span<const int64_t> lengths, int64_t batch_tokens);

}  // namespace qkv::data

#pragma once
// Groups sequences into ragged batches of similar lengths.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/search/step_model.h"

namespace qkv::search {

// Indices of the sequences, longest first (ties in input order), split into batches of at most `budget`
// tokens. A sequence longer than `budget` is a batch of its own. Throws UsageError for a budget below 1.
std::vector<std::vector<size_t>> batches_by_length(std::span<const int64_t> lengths, int64_t budget);

// Concatenates the sequences: ids i32 [tokens].
Ragged pack_ragged(std::span<const Ids> sequences);

}  // namespace qkv::search

#pragma once
// Sequences into ragged batches of similar lengths.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/search/step_model.h"

namespace qkv::search {

// Numbers of sequences, longest first and equal ones in their order, cut where a batch would hold more than
// `budget` tokens; a longer sequence is a batch of its own. Throws UsageError for a budget below 1.
std::vector<std::vector<size_t>> batches_by_length(std::span<const int64_t> lengths, int64_t budget);

// Sequences laid end to end: ids i32 [tokens].
Ragged pack_ragged(std::span<const Ids> sequences);

}  // namespace qkv::search

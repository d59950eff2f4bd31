#pragma once
// Selects a token of each sequence.

#include "qkv/ops/variable.h"
#include "qkv/tensor/ragged.h"

namespace qkv::models {

// The place of each sequence's last token.
inline constexpr int64_t kLastToken = -1;

// hidden: [tokens, d_model] -> row `place` of each sequence, [sequences, d_model]; kLastToken: its last.
// Throws UsageError for a shorter sequence.
Variable rows_at(const Variable& hidden, int64_t d_model, const Offsets& offsets, int64_t place = 0);

}  // namespace qkv::models

#pragma once
// Constraints common to all configurations. These throw UsageError naming the field, what was expected and
// what was found.

#include "qkv/nn/embedding.h"
#include "qkv/nn/encoder.h"

namespace qkv::models {

// Upper bounds, so that the product of two sizes, in bytes, fits into 64 bits.
constexpr int64_t kMaxOfASize = int64_t{1} << 28, kMaxHeads = 4096;

void require_at_least(const char* field, int64_t least, int64_t found, int64_t most = kMaxOfASize);
void require_rate(const char* field, float rate);  // in [0, 1)
void require_epsilon(float epsilon);
void validate_positions(const nn::PositionOptions& positions);
void validate_stack(const nn::StackOptions& stack);
// Checks that a stack takes the results of an embedding.
void validate_embedding(const nn::EmbeddingConfig& embedding, const nn::StackOptions& stack);

}  // namespace qkv::models

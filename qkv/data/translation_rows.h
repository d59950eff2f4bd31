#pragma once
// Batches of sentence pairs for a translation model.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/data/batches.h"
#include "qkv/data/token_rows.h"
#include "qkv/data/token_store.h"
#include "qkv/text/tokenizer.h"

namespace qkv::data {

// Training data of a translation model. `decoder_input` and `labels` have the same offsets: the label of a
// position is the next token.
struct TranslationRows {
  TokenRows source;         // the source's ids, then </s> (special.source_eos)
  TokenRows decoder_input;  // the start token, then the target's ids
  TokenRows labels;         // the target's ids, then </s>
};

// The rows of the given pairs, in order. Throws UsageError if `special` has no start token.
TranslationRows make_rows(const TokenStore& store, std::span<const int64_t> pairs,
                          const text::SpecialIds& special);

// A pair's cost: source + target tokens with their </s>. Ragged batches have no padding, so this is what is
// computed.
inline int64_t pair_cost(const TokenStore& store, int64_t pair) {
  return store.source_length(pair) + store.target_length(pair) + 2;
}
// The costs of all pairs, for BatchCursor and sequential_batches().
std::vector<int64_t> pair_costs(const TokenStore& store);
// The lengths of all targets, by which BatchCursor sorts pairs of equal cost, so that both sides of a batch
// are alike.
std::vector<int64_t> target_lengths(const TokenStore& store);

}  // namespace qkv::data

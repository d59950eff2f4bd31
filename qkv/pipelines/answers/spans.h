#pragma once
// The most likely answers, given the logits of their first and last tokens.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "qkv/tensor/tensor.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

struct LikelyRange {
  text::ByteRange bytes;
  double probability = 0;
};

struct LikelyRanges {
  std::vector<LikelyRange> ranges;  // of different texts, most likely first
  std::optional<double> none;       // the probability that there is no answer; nothing: it has no token
};

// logits: f32 [tokens, 2] on the host, of being the first and the last token of the answer. Both are
// normalised over the tokens of the second text and the first token `none`. A span of at most max_tokens
// tokens has the product of its two probabilities. A range has whole words (the pre-tokenizer's pieces, or
// parts of them between white space) and the sum of the spans that begin in its first word and end in its
// last one; equal texts are one answer, at the place of the most likely. Throws UsageError for a token beyond
// the text.
LikelyRanges likely_ranges(const Tensor& logits, const text::Encoding& encoding, std::string_view text,
                           std::optional<int32_t> none, int64_t count, int64_t max_tokens);

}  // namespace qkv::pipelines

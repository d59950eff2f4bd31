#pragma once
// The most likely answers, given the logits of their first and last tokens.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "qkv/tensor/tensor.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

// The tokens of a window that an answer may have: those of the second text.
struct AnswerTokens {
  std::vector<int64_t> rows;           // in the window
  std::vector<size_t> word;            // of each, an index of `words`
  std::vector<text::ByteRange> words;  // the pre-tokenizer's pieces, or parts of them between white space
  std::optional<int64_t> none;         // the row that stands for no answer

  template <class Function>
  void members(const Function& function) {
    function(rows, word, words, none);
  }
};

// `none`: the first of these special tokens stands for no answer. Throws UsageError for a token beyond the
// text.
AnswerTokens answer_tokens(const text::Encoding& encoding, std::string_view text,
                           std::optional<int32_t> none);

struct LikelyRange {
  text::ByteRange bytes;
  double probability = 0;
};

struct LikelyRanges {
  std::vector<LikelyRange> ranges;  // of different texts, most likely first
  std::optional<double> none;       // the probability that there is no answer; nothing: it has no token
};

// logits: f32 [tokens, 2] on the host, of being the first and the last token of the answer. Both are
// normalised over the answer's tokens and `none`. A span of at most max_tokens tokens has the product of its
// two probabilities. A range has whole words and the sum of the spans that begin in its first word and end in
// its last one; equal texts are one answer, at the place of the most likely.
LikelyRanges likely_ranges(const Tensor& logits, const AnswerTokens& tokens, std::string_view text,
                           int64_t count, int64_t max_tokens);

}  // namespace qkv::pipelines

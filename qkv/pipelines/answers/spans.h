#pragma once
// The most likely answers, given the logits of their first and last tokens.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/tensor/tensor.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

// The tokens of a window that an answer may have: those of the second text.
struct AnswerTokens {
  std::vector<int64_t> rows;  // in the window
  std::vector<size_t> word;   // of each, an index of `words`
  // The pre-tokenizer's pieces, or parts of them between white space; empty for a token of white space alone.
  std::vector<text::ByteRange> words;
  std::optional<int64_t> none;  // the row that stands for no answer

  template <class Function>
  void members(const Function& function) {
    function(rows, word, words, none);
  }
};

// Of each window of a text. Words are whole, also where a window cuts them, with the marks (accents) at their
// ends. `none`: the first of these special tokens stands for no answer. Throws UsageError for a token beyond
// the text, which is UTF-8.
std::vector<AnswerTokens> answer_tokens(std::span<const text::EncodedWindow> windows, std::string_view text,
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
// two probabilities. A text has the sum of all spans that begin in the first word and end in the last one of
// a place where it is, and the place of the likeliest.
LikelyRanges likely_ranges(const Tensor& logits, const AnswerTokens& tokens, std::string_view text,
                           int64_t count, int64_t max_tokens);

}  // namespace qkv::pipelines

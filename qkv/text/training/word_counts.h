#pragma once
// The distinct words of texts and how often each occurs.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkv/text/steps/normalizers.h"
#include "qkv/text/steps/pre_tokenizers.h"
#include "qkv/text/train_tokenizer.h"

namespace qkv::text {

struct CountedWord {
  std::string word;
  int64_t count = 0;
};

// Normalizes (null: not at all) and splits each line of `training.inputs`; returns the pieces in order of
// bytes, the same for any number of threads. Counts lines and words in `progress` and passes it to the
// observer after each round of blocks. Throws as train_tokenizer() does; DataError if there are no words.
std::vector<CountedWord> count_words(const TokenizerTraining& training, const Normalizer* normalizer,
                                     const PreTokenizer& pre_tokenizer, TokenizerProgress& progress,
                                     const TokenizerObserver& observer, const std::atomic<bool>* stop);

// The distinct characters of the text, in order of code points. Likewise.
std::vector<char32_t> distinct_characters(const TokenizerTraining& training, TokenizerProgress& progress,
                                          const TokenizerObserver& observer, const std::atomic<bool>* stop);

}  // namespace qkv::text

#pragma once
// Unigram tokenizers, trained by SentencePiece (Kudo 2018).

#include <atomic>
#include <string>

#include "qkv/text/train_tokenizer.h"

namespace qkv::text {

// Trains a SentencePiece model, with train_sentencepiece()'s defaults, and returns it as a tokenizer.json:
// the model's pieces with its ids, then </s> and <pad>. Sets the numbers of lines and tokens in `progress`.
// Throws as train_tokenizer() does, UsageError also for stdin and pipes.
std::string train_unigram(const TokenizerTraining& training, TokenizerProgress& progress,
                          const std::atomic<bool>* stop);

}  // namespace qkv::text

#pragma once
// Trains a tokenizer on texts and returns its tokenizer.json, which Tokenizer::from_json() and PyPI's
// `tokenizers` open with the same ids.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qkv::text {

enum class TokenizerKind {
  wordpiece,  // BERT's (Devlin et al. 2019): [PAD] [UNK] [CLS] [SEP] [MASK], then characters and pieces
  bpe,        // byte-level byte-pair encoding, GPT-2's (Radford et al. 2019): <|endoftext|>, bytes, merges
  unigram,    // SentencePiece's (Kudo 2018), with ▁ for spaces
  chars,      // every character of the text is a token
};

struct TokenizerTraining {
  // Text files, which gzip may compress.
  std::vector<std::filesystem::path> inputs;
  TokenizerKind kind = TokenizerKind::wordpiece;
  int64_t vocab_size = 8000;   // special tokens included; smaller if the text yields fewer. Not for chars
  int64_t min_frequency = 2;   // of a pair of symbols to be merged: wordpiece, bpe
  bool lowercase = true;       // wordpiece: BERT's uncased normalisation, which also strips accents
  bool skip_bad_utf8 = false;  // skip lines that are not UTF-8 instead of throwing
};

// The same text and options give the same bytes on any machine with any number of threads. Throws UsageError
// for options out of range, DataError for a text that is empty or not UTF-8, IoError; Stopped soon after
// *stop becomes true.
std::string train_tokenizer(const TokenizerTraining& options, const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::text

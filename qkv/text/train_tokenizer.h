#pragma once
// Trains a tokenizer on texts and returns its tokenizer.json, which Tokenizer::from_json() and PyPI's
// `tokenizers` open with the same ids.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace qkv::text {

enum class TokenizerKind {
  wordpiece,  // BERT's (Devlin et al. 2019): [PAD] [UNK] [CLS] [SEP] [MASK], then characters and pieces
  bpe,        // byte-level byte-pair encoding, GPT-2's (Radford et al. 2019): <|endoftext|>, bytes, merges
  unigram,    // SentencePiece's (Kudo 2018), with ▁ for spaces: its ids, then </s> and <pad>
  chars,      // <unk>, then every character of the text, line ends included, in order of code points
};

struct TokenizerTraining {
  // Text files, which gzip may compress. "-" and pipes are read once: not for unigram, which reads twice.
  std::vector<std::filesystem::path> inputs = {};
  TokenizerKind kind = TokenizerKind::wordpiece;
  int64_t vocab_size = 8000;   // special tokens included; smaller if the text yields fewer. Not for chars
  int64_t min_frequency = 2;   // of a pair of symbols to be merged: wordpiece, bpe
  bool lowercase = true;       // wordpiece: BERT's uncased normalisation, which also strips accents
  bool skip_bad_utf8 = false;  // skip lines that are not UTF-8 instead of throwing
  // wordpiece: characters that get tokens, the most frequent ones; words with others are [UNK]. 0: all.
  int64_t limit_alphabet = 0;
  int64_t vocab_lines = 100'000;  // unigram: lines to train on, drawn at random from longer texts; 0: all
};

// What training has done so far.
struct TokenizerProgress {
  enum class Stage { reading, merging, unigram, done };
  Stage stage = Stage::reading;
  int64_t lines = 0, skipped_lines = 0;   // skipped: not UTF-8
  int64_t used_lines = 0;                 // that unigram is trained on
  int64_t words = 0, distinct_words = 0;  // as split before the model: wordpiece, bpe
  int64_t characters = 0;                 // of the text, each counted once: wordpiece, chars
  int64_t tokens = 0, merges = 0;         // tokens: of the vocabulary
};
using TokenizerObserver = std::function<void(const TokenizerProgress&)>;

// WordPiece and byte-level BPE merge the most frequent pair of adjacent symbols, of equally frequent ones the
// pair with the lowest ids (Sennrich et al. 2016), as PyPI's WordPieceTrainer and BpeTrainer do; a line is
// read with its end, as by their train(files). BPE has the same ids as PyPI's. WordPiece has the same pieces,
// except where counts tie: PyPI numbers the characters within words (##a) in a random order.
//
// The same text and options give the same bytes on any machine with any number of threads. Memory, except for
// unigram (train_sentencepiece.h): a block of text per thread (1 MiB, or a line if it is longer), and some
// 400 bytes for each distinct word, whatever the length of the text.
//
// `observer` is called from the calling thread, at least once per block and per 64 merges, and at the end.
// Throws UsageError for options out of range and for a vocabulary size too small for the characters of the
// text (naming the smallest), DataError for a text that is empty or not UTF-8, IoError; Stopped soon after
// *stop becomes true.
std::string train_tokenizer(const TokenizerTraining& options, const std::atomic<bool>* stop = nullptr,
                            const TokenizerObserver& observer = {});

// The tokenizer_config.json for it: the class with which PyPI's `transformers` opens the folder, and the
// special tokens' names.
std::string trained_tokenizer_config(const TokenizerTraining& options);

}  // namespace qkv::text

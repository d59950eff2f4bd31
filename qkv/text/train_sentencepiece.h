#pragma once
// Trains a subword vocabulary: SentencePiece (Kudo and Richardson 2018), unigram or byte-pair encoding.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qkv::text {

enum class SubwordKind { unigram, bpe };

struct TrainOptions {
  // Text files with one sentence per line; for a joint vocabulary, those of both languages.
  std::vector<std::filesystem::path> inputs;
  // Vocabulary size of the resulting TranslationTokenizer::from_models(): pieces and three special tokens.
  int64_t vocab_size = 8000;
  // If the text yields fewer pieces, use a smaller vocabulary instead of throwing.
  bool smaller_if_needed = false;
  SubwordKind kind = SubwordKind::unigram;
  // The share of the text's characters that get pieces of their own; others become <unk>. 1: all characters.
  double character_coverage = 0.9999;
  // Larger corpora are sampled uniformly, by seed, down to this many sentences: SentencePiece takes some 0.1
  // ms and 2 KB for each. 0: all.
  int64_t max_sentences = 100'000;
  uint64_t seed = 1;
  // Encode characters outside the vocabulary as bytes (256 more pieces) instead of <unk>.
  bool byte_fallback = false;
  // Skip lines that are not UTF-8 instead of throwing.
  bool skip_bad_utf8 = false;
};

// Counts of the lines of the files. Skipped: not UTF-8.
struct TrainedLines {
  int64_t lines = 0, used = 0, skipped_bad_utf8 = 0;
};

// Returns the serialized model; the same text and options give the same bytes on any machine with any number
// of cores. Empty lines and lines of more than 4,192 bytes are skipped. Throws UsageError for options out of
// range and for a vocabulary size too large (naming the largest possible) or too small (naming the smallest)
// for the text; DataError for text that is empty or not UTF-8; IoError.
//
// Throws Stopped soon after *stop becomes true. SentencePiece cannot be interrupted, so with a `stop` it runs
// on a separate thread, which a stop abandons: the thread finishes, and its result is dropped. exit() waits
// for it; _Exit() does not.
// Fills *lines, if given.
std::string train_sentencepiece(const TrainOptions& options, const std::atomic<bool>* stop = nullptr,
                                TrainedLines* lines = nullptr);

}  // namespace qkv::text

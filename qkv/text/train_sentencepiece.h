#pragma once
// Learning a subword vocabulary from text: SentencePiece (Kudo and Richardson 2018), unigram or byte-pair
// encoding.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qkv::text {

enum class SubwordKind { unigram, bpe };

struct TrainOptions {
  // Text files, one sentence a line; both languages' files for a joint vocabulary.
  std::vector<std::filesystem::path> inputs;
  // The size of the vocabulary that TranslationTokenizer::from_models() makes of the model: the pieces and
  // the three special tokens.
  int64_t vocab_size = 8000;
  // Where the text does not yield so many pieces, take as many as it does in place of failing.
  bool smaller_if_needed = false;
  SubwordKind kind = SubwordKind::unigram;
  // The share of all characters of the text that get a piece of their own; the rest is <unk>. 1: every
  // character.
  double character_coverage = 0.9999;
  // A text of more sentences than this is sampled evenly, by the seed, down to it: SentencePiece keeps what
  // it learns from in memory.
  int64_t max_sentences = 1'000'000;
  uint64_t seed = 1;
  // Characters outside the vocabulary become bytes (256 more pieces) in place of <unk>.
  bool byte_fallback = false;
  // Leave out lines that are not UTF-8 in place of failing.
  bool skip_bad_utf8 = false;
};

// The serialized model, the same bytes for the same text and options on any machine with any number of cores.
// Empty lines and lines of more than 4,192 bytes are left out. Throws UsageError for options out of range and
// for a vocabulary that is too large (naming the largest possible) or too small (naming the smallest) for the
// text; DataError for text that is empty or not UTF-8; IoError.
std::string train_sentencepiece(const TrainOptions& options);

}  // namespace qkv::text

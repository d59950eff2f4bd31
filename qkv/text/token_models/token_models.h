#pragma once
// Splits pieces of text into tokens: the models of a tokenizer.json.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/text/token_models/vocabulary.h"

namespace qkv::text {

// A token and its byte range in the piece.
struct Token {
  int32_t id = 0;
  uint32_t begin = 0, end = 0;
};

// Immutable; safe to use from several threads.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a non-empty piece.
  virtual void tokenize(std::string_view piece, std::vector<Token>& tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

using TokenModelPtr = std::unique_ptr<const TokenModel>;

// WordPiece: greedy longest match from the left (Wu et al. 2016); a word without a match is one unknown
// token.
struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";  // of tokens within a word
  int64_t max_input_chars_per_word = 100;        // longer words are unknown
};
// Throws DataError beginning with `name` if the vocabulary lacks the unknown token.
TokenModelPtr wordpiece_model(Vocabulary vocabulary, const WordPieceOptions& options,
                              const std::string& name);

// Byte-pair encoding (Sennrich et al. 2016): merges adjacent pairs, the earliest rule first.
struct BpeOptions {
  std::string unk_token = {};  // empty: unknown characters are dropped
  std::string continuing_subword_prefix = {}, end_of_word_suffix = {};
  bool fuse_unk = false;       // merge adjacent unknown characters into one token
  bool byte_fallback = false;  // encode unknown characters as tokens <0x00> to <0xFF>, if all are there
  bool ignore_merges = false;  // do not split a piece that is in the vocabulary
  // Pieces are bytes, which the vocabulary spells as letters (byte_letters.h). The conversion of
  // ByteLevelOptions::spell_bytes is then applied once to the vocabulary instead of to each text.
  bool bytes = false;
};
using Merges = std::vector<std::pair<std::string, std::string>>;
// Throws DataError beginning with `name` if a merge or the unknown token is not in the vocabulary.
TokenModelPtr bpe_model(Vocabulary vocabulary, const Merges& merges, const BpeOptions& options,
                        const std::string& name);
// Whether a vocabulary has all bytes, as BpeOptions::bytes requires.
bool spells_all_bytes(const Vocabulary& vocabulary);

// Unigram: the most likely segmentation, given log-probabilities of tokens (Kudo 2018).
struct UnigramOptions {
  int64_t unk_id = 0;
  bool byte_fallback = false;
};
// A token's index is its id. Throws DataError beginning with `name` if unk_id is out of range.
using ScoredTokens = std::vector<std::pair<std::string, double>>;
TokenModelPtr unigram_model(const ScoredTokens& tokens, const UnigramOptions& options,
                            const std::string& name);

// Each piece is a token or unknown. Throws DataError beginning with `name` if the unknown token is missing.
TokenModelPtr word_level_model(Vocabulary vocabulary, const std::string& unk_token, const std::string& name);

}  // namespace qkv::text

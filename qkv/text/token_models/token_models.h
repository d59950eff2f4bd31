#pragma once
// How pieces of text become tokens: the models of a tokenizer.json.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/text/token_models/vocabulary.h"

namespace qkv::text {

// A token, and the bytes of the piece that it stands for.
struct Token {
  int32_t id = 0;
  uint32_t begin = 0, end = 0;
};

// Immutable; may be used from several threads at once.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a piece, which is not empty.
  virtual void tokenize(std::string_view piece, std::vector<Token>& tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

using TokenModelPtr = std::unique_ptr<const TokenModel>;

// Greedy longest match from the left (Wu et al. 2016); a word that cannot be spelled is one unknown token.
struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";  // of tokens that do not begin a word
  int64_t max_input_chars_per_word = 100;        // longer words are unknown
};
// Throws DataError beginning with `name` where the vocabulary lacks the unknown token.
TokenModelPtr wordpiece_model(Vocabulary vocabulary, const WordPieceOptions& options,
                              const std::string& name);

// Byte-pair encoding (Sennrich et al. 2016): pairs of neighbours are merged, the earliest rule first.
struct BpeOptions {
  std::string unk_token = {};  // empty: what is unknown is left out
  std::string continuing_subword_prefix = {}, end_of_word_suffix = {};
  bool fuse_unk = false;  // unknown characters side by side are one token
  bool byte_fallback =
      false;  // unknown characters become tokens <0x00> to <0xFF>, where there are all of theirs
  bool ignore_merges = false;  // a piece that is a token is that token
  // Pieces are bytes, which the vocabulary spells as letters (byte_letters.h): what
  // ByteLevelOptions::spell_bytes would do for each text is done for the vocabulary once.
  bool bytes = false;
};
using Merges = std::vector<std::pair<std::string, std::string>>;
// Throws DataError beginning with `name` where a merge or the unknown token is not in the vocabulary.
TokenModelPtr bpe_model(Vocabulary vocabulary, const Merges& merges, const BpeOptions& options,
                        const std::string& name);
// Whether a vocabulary spells every byte, as BpeOptions::bytes needs it.
bool spells_all_bytes(const Vocabulary& vocabulary);

// The likeliest way to cut, with a log-probability for each token (Kudo 2018).
struct UnigramOptions {
  int64_t unk_id = 0;
  bool byte_fallback = false;
};
// A token's place is its id. Throws DataError beginning with `name` where unk_id is not one of them.
using ScoredTokens = std::vector<std::pair<std::string, double>>;
TokenModelPtr unigram_model(const ScoredTokens& tokens, const UnigramOptions& options,
                            const std::string& name);

// Each piece is a token or unknown. Throws DataError beginning with `name` where the unknown token is
// missing.
TokenModelPtr word_level_model(Vocabulary vocabulary, const std::string& unk_token, const std::string& name);

}  // namespace qkv::text

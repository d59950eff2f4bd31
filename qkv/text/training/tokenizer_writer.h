#pragma once
// Writes tokenizer.json files of trained tokenizers.

#include <string>
#include <utility>
#include <vector>

#include "qkv/text/token_models/token_models.h"
#include "qkv/text/training/pair_merges.h"

namespace qkv::text {

// Of all functions: a token's index in `tokens` is its id, and the first ones are special where the file says
// so.

// BERT's: the special tokens are kBertTokens.
inline const std::vector<std::string> kBertTokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
std::string wordpiece_json(const std::vector<std::string>& tokens, bool lowercase);

// GPT-2's: the first token is special.
inline constexpr const char* kEndOfText = "<|endoftext|>";
std::string byte_level_bpe_json(const std::vector<std::string>& tokens, const MergedPairs& merges);

// A token for each character; the first token is special, and unknown characters become it.
inline constexpr const char* kUnknown = "<unk>";
std::string characters_json(const std::vector<std::string>& tokens);

// SentencePiece's unigram model; the unknown token is the first. `charsmap`: its character map, empty for
// none. `special`: tokens with the ids after the pieces.
std::string unigram_json(const ScoredTokens& pieces, std::string_view charsmap,
                         const std::vector<std::string>& special);

}  // namespace qkv::text

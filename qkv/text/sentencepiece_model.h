#pragma once
// A SentencePiece model (tokenizer.model, spiece.model) as the model of a tokenizer. The library that wrote
// it does everything: normalizing, cutting, numbering, and joining again.

#include <string>

#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {

// Ids are the model's own. Symbols such as </s> are special tokens, and never found in text. `name` is named
// in errors. Throws DataError where the bytes are not a SentencePiece model.
TokenizerParts read_sentencepiece(const std::string& bytes, const std::string& name);

// The source side of a Marian folder: pieces are cut by source.spm and numbered by vocab.json, as
// MarianTokenizer does. Texts end in </s>. Throws DataError where the vocabulary lacks </s> or <unk>.
TokenizerParts read_marian_source(const std::string& model, TokenTable vocabulary, const std::string& name);

}  // namespace qkv::text

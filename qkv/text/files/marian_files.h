#pragma once
// The tokenizer files of a Marian folder: SentencePiece models that cut text into pieces (source.spm,
// target.spm), and a vocabulary that numbers the pieces (vocab.json, and target_vocab.json where the two
// languages have their own).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "qkv/text/token_models/sentencepiece.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::text {

// Pieces cut by a model and numbered by a vocabulary. Texts end in </s>.
struct MarianSide {
  std::shared_ptr<const SentencePieceModel> model;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::string name;  // of the vocabulary, for messages
};

// `joiner` joins the pieces of decoded text. Throws DataError where the vocabulary lacks </s>, <unk> or
// <pad>, or has other ids than 0 to n-1, and where it is not of this model.
TokenizerParts marian_parts(const MarianSide& side, std::shared_ptr<const SentencePieceModel> joiner);

struct MarianFiles {
  // With a joint vocabulary the sides share it, and where the models are equal, the model.
  MarianSide source, target;
  std::string source_lang, target_lang;

  bool separate() const { return source.vocabulary != target.vocabulary; }
  TokenizerParts parts(Side side) const;
  // Changes whenever a model or a vocabulary does.
  uint64_t fingerprint() const;
};

// Numbers the pieces of new models: TranslationTokenizer::from_models().
MarianFiles number_pieces(const MarianModels& models);

// Throws IoError for a missing file, and DataError naming the file.
MarianFiles read_marian_files(const std::filesystem::path& folder, ExpectedSizes expected);
void write_marian_files(const MarianFiles& files, const std::filesystem::path& folder, int64_t max_length);

// source.spm alone, with the vocab.json beside it.
TokenizerParts read_marian_source(const std::filesystem::path& path);

}  // namespace qkv::text

#pragma once
// The tokenizer files of a Marian folder: SentencePiece models, which split text into pieces (source.spm,
// target.spm), and vocabularies, which map pieces to ids (vocab.json, and target_vocab.json if the languages
// have separate ones).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "qkv/text/token_models/sentencepiece.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::text {

// A SentencePiece model and a vocabulary for its pieces. Texts end in </s>.
struct MarianSide {
  std::shared_ptr<const SentencePieceModel> model;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::string name;  // of the vocabulary, for messages
};

// `joiner` joins the pieces of decoded text. Throws DataError if the vocabulary lacks </s>, <unk> or <pad>,
// has ids other than 0 to n-1, or does not match the model.
TokenizerParts marian_parts(const MarianSide& side, std::shared_ptr<const SentencePieceModel> joiner);

struct MarianFiles {
  // With a joint vocabulary both sides share it, and if the models are equal, also the model.
  MarianSide source, target;
  std::string source_lang, target_lang;
  bool clean_up_spaces = false;  // of decoded text

  bool separate() const { return source.vocabulary != target.vocabulary; }
  TokenizerParts parts(Side side) const;
  // Changes with any model or vocabulary.
  uint64_t fingerprint() const;
};

// Numbers the pieces of new models, for TranslationTokenizer::from_models().
MarianFiles number_pieces(const MarianModels& models);

// Throws IoError for a missing file, DataError naming the file for an invalid one.
MarianFiles read_marian_files(const std::filesystem::path& folder, ExpectedSizes expected);
void write_marian_files(const MarianFiles& files, const std::filesystem::path& folder, int64_t max_length);

// Reads source.spm and the vocab.json beside it.
TokenizerParts read_marian_source(const std::filesystem::path& path);

}  // namespace qkv::text

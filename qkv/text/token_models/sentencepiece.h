#pragma once
// SentencePiece models (Kudo and Richardson 2018: tokenizer.model, spiece.model, source.spm), run by the
// library that wrote them. It normalizes, cuts into pieces, and joins pieces again.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/steps/decoders.h"
#include "qkv/text/token_models/token_models.h"
#include "qkv/text/tokenizer.h"

namespace qkv::text {

// Immutable; may be used from several threads at once.
class SentencePieceModel {
 public:
  // `name` (a file) is named in errors. Throws DataError where the bytes are not a SentencePiece model, or
  // its map of characters is malformed.
  SentencePieceModel(std::string bytes, std::string name);
  ~SentencePieceModel();

  const std::string& bytes() const { return bytes_; }
  const std::string& name() const { return name_; }

  int32_t size() const;  // of pieces
  const std::string& piece(int32_t id) const;
  bool is_control(int32_t id) const;  // a symbol such as </s>, never found in text
  bool in_text(int32_t id) const;     // text can be cut into it: no control symbol, not unknown, not unused
  SpecialTokens special_tokens() const;

  // Calls each(id, piece, begin, end) for the pieces of a text and their bytes in it. A piece that is unknown
  // is spelled as in the normalized text.
  using EachPiece = std::function<void(int32_t id, std::string_view piece, uint32_t begin, uint32_t end)>;
  void encode(std::string_view text, const EachPiece& each) const;

  // The text of pieces.
  std::string decode(const std::vector<std::string>& pieces) const;

 private:
  struct Processor;

  std::string bytes_, name_;
  std::unique_ptr<const Processor> processor_;
};

// Tokens are the model's pieces, with its own ids.
TokenModelPtr sentencepiece_model(std::shared_ptr<const SentencePieceModel> model);

// Tokens are the model's pieces, numbered by a vocabulary, as in Marian's folders; a piece outside it is
// `unknown`, and so is text that is spelled like one of the `symbols`. A leading language code such as
// >>fra<< is one token. Throws DataError beginning with `name` where the vocabulary lacks more than one in
// ten of the pieces; a few missing ones are told to the log.
TokenModelPtr numbered_pieces_model(std::shared_ptr<const SentencePieceModel> model,
                                    std::shared_ptr<const Vocabulary> vocabulary, int32_t unknown,
                                    std::vector<int32_t> symbols, const std::string& name);

// Joins pieces as the model does. Marian's tokenizer besides makes spaces of the marks that are left, and
// strips white space at the ends.
DecoderPtr sentencepiece_decoder(std::shared_ptr<const SentencePieceModel> model, bool marian);

}  // namespace qkv::text

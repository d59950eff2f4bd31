#pragma once
// SentencePiece models (Kudo and Richardson 2018: tokenizer.model, spiece.model, source.spm), run by the
// SentencePiece library, which normalizes, splits into pieces, and joins pieces.

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

// Immutable; safe to use from several threads.
class SentencePieceModel {
 public:
  // `name` (a file) is used in errors. Throws DataError if the bytes are not a SentencePiece model, or its
  // character map is malformed.
  SentencePieceModel(std::string bytes, std::string name);
  ~SentencePieceModel();

  const std::string& bytes() const { return bytes_; }
  const std::string& name() const { return name_; }

  int32_t size() const;  // number of pieces
  // These throw UsageError unless id is from 0 to size() - 1.
  const std::string& piece(int32_t id) const;
  bool is_control(int32_t id) const;  // a symbol such as </s>, never matched in text
  bool in_text(int32_t id) const;     // may result from text: neither control symbol, nor unknown, nor unused
  SpecialTokens special_tokens() const;

  // Calls each(id, piece, begin, end) for each piece of a text and its byte range. An unknown piece is
  // spelled as in the normalized text.
  using EachPiece = std::function<void(int32_t id, std::string_view piece, uint32_t begin, uint32_t end)>;
  void encode(std::string_view text, const EachPiece& each) const;

  // Joins pieces to text.
  std::string decode(const std::vector<std::string>& pieces) const;

 private:
  struct Processor;
  int32_t checked(int32_t id) const;

  std::string bytes_, name_;
  std::unique_ptr<const Processor> processor_;
};

// Tokens are the model's pieces with the model's ids.
TokenModelPtr sentencepiece_model(std::shared_ptr<const SentencePieceModel> model);

struct NumberedPiecesOptions {
  int32_t unknown = 0;
  std::vector<int32_t> symbols = {};
  bool language_codes = false;  // a leading code such as >>fra<< is one token
};
// Tokens are the model's pieces with a vocabulary's ids, as in Marian's and XLM-R's folders. A piece outside
// the vocabulary becomes `unknown`, and so does text spelled like one of the `symbols`. Throws DataError
// beginning with `name` if the vocabulary lacks more than one in ten of the pieces; fewer missing ones are
// logged.
TokenModelPtr numbered_pieces_model(std::shared_ptr<const SentencePieceModel> model,
                                    std::shared_ptr<const Vocabulary> vocabulary,
                                    NumberedPiecesOptions options, const std::string& name);

// Joins pieces as the model does. Marian's tokenizer also replaces remaining word boundary symbols by spaces,
// and strips white space at the ends.
DecoderPtr sentencepiece_decoder(std::shared_ptr<const SentencePieceModel> model, bool marian);

}  // namespace qkv::text

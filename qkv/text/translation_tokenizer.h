#pragma once
// The tokenizers of an encoder-decoder, whichever files a folder keeps them in.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/tokenizer.h"

namespace qkv::text {

enum class Side { source, target };

// What a new tokenizer is made of.
struct MarianModels {
  std::string source;  // a serialized SentencePiece model
  std::string target;  // the same of the target language; empty: one joint vocabulary, `source` serves both
  std::string source_lang;  // such as "en"; may be empty
  std::string target_lang;
};

// The vocabulary sizes of a model; 0 = unknown, not checked.
struct ExpectedSizes {
  int64_t source = 0;
  int64_t target = 0;
};

struct MarianFiles;  // what a Marian folder keeps (files/marian_files.h)

// A tokenizer for each side: those of a Marian folder, or one for both, as T5 has it. Immutable and cheap to
// copy; all member functions may be called from several threads at once.
class TranslationTokenizer {
 public:
  // Marian's where there is a source.spm or a target.spm, else what Tokenizer::load() finds. Throws IoError
  // for a missing file; DataError naming the file for what is malformed, for a vocabulary without </s>, <unk>
  // or <pad> or with other ids than 0..n-1, for a size other than a Marian model's (for other models: a
  // larger one), and for a vocabulary that lacks more than one in ten of its model's pieces. (A few missing
  // ones, as in some published folders, become <unk> and are told to the log.)
  static TranslationTokenizer load(const std::filesystem::path& folder, ExpectedSizes expected = {});

  // Numbers the pieces of new SentencePiece models. Joint vocabulary, Marian's order: </s> = 0, <unk> = 1,
  // the pieces in the model's order, <pad> last. Separate vocabularies: </s> = 0, <unk> = 1, <pad> = 2, then
  // the pieces, so that the special tokens have the same ids on both sides (a Marian configuration has one
  // field for each). Throws DataError if a model is not a SentencePiece model.
  static TranslationTokenizer from_models(const MarianModels& models);

  // One tokenizer for both sides. Throws DataError where it puts anything else around a text than one token
  // behind it.
  explicit TranslationTokenizer(const Tokenizer& tokenizer);

  // Writes a Marian folder's files (source.spm, target.spm, vocab.json, tokenizer_config.json and the like),
  // which transformers' AutoTokenizer opens too. `max_length` is the longest sequence of the model, the end
  // included. Creates the folder if missing; each file is replaced atomically. Throws IoError; UsageError for
  // a tokenizer of other files.
  void save(const std::filesystem::path& folder, int64_t max_length = 512) const;

  const Tokenizer& tokenizer(Side side) const { return side == Side::source ? source_ : target_; }

  // The ids of a text, without the end: append eos_id() to what a model reads or is to predict. A piece
  // outside the vocabulary is <unk>; the text </s> or <pad> never gives the special id. Of Marian, a leading
  // language code such as >>fra<< is one token, <unk> where the vocabulary does not have it.
  std::vector<int32_t> encode(Side side, std::string_view text) const;
  std::vector<int32_t> encode_source(std::string_view text) const { return encode(Side::source, text); }
  std::vector<int32_t> encode_target(std::string_view text) const { return encode(Side::target, text); }

  // The text of ids without special tokens (Marian's <unk> is one).
  std::string decode(std::span<const int32_t> ids, Side side = Side::target) const;

  // How the vocabulary spells an id ("▁house"); empty for an id that has no token, as models may have more
  // rows than there are tokens.
  std::string_view piece(int32_t id, Side side = Side::target) const;

  int32_t eos_id(Side side = Side::target) const;  // ends a sequence
  int32_t unk_id(Side side = Side::target) const;  // -1: there is none
  int32_t pad_id(Side side = Side::target) const;  // also Marian's decoder start; -1: there is none

  int64_t size(Side side = Side::target) const { return tokenizer(side).size(); }

  // Of Marian's files; otherwise false and empty.
  bool separate_vocabularies() const;
  const std::string& source_lang() const;
  const std::string& target_lang() const;

  // Changes whenever a model or a vocabulary does: a cache of token ids is valid for one fingerprint. Throws
  // UsageError for a tokenizer of other files than Marian's.
  uint64_t fingerprint() const;

 private:
  explicit TranslationTokenizer(std::shared_ptr<const MarianFiles> files);
  const MarianFiles& marian(const char* what) const;

  Tokenizer source_, target_;
  int32_t source_eos_, target_eos_;
  std::shared_ptr<const MarianFiles> marian_;  // null: other files
};

}  // namespace qkv::text

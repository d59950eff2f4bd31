#pragma once
// The source and target tokenizers of an encoder-decoder, in any file format.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/tokenizer.h"

namespace qkv::text {

enum class Side { source, target };

// The parts of a new tokenizer.
struct MarianModels {
  std::string source;       // a serialized SentencePiece model
  std::string target;       // likewise for the target language; empty: joint vocabulary, `source` serves both
  std::string source_lang;  // such as "en"; may be empty
  std::string target_lang;
  std::string source_name = "the source model";  // for messages: the file
  std::string target_name = "the target model";
};

// The vocabulary sizes of a Marian model; 0: unknown, not checked.
struct ExpectedSizes {
  int64_t source = 0;
  int64_t target = 0;
};

// How the sources of NLLB, mBART and M2M-100 name their language, a token of the vocabulary.
struct SourceLanguages {
  bool before = true;  // the language stands before the text; false: after </s>
  std::string mark;    // around its name in the vocabulary: "__" in M2M-100
  std::string usual;   // of sources without another
};

struct MarianFiles;  // the contents of a Marian folder (files/marian_files.h)

// One tokenizer per side: those of a Marian folder, or a shared one as in T5. Immutable and cheap to copy;
// safe to use from several threads.
class TranslationTokenizer {
 public:
  // Reads Marian's files if there is a source.spm or target.spm, otherwise what Tokenizer::load() finds.
  // Throws IoError for a missing file; DataError naming the file if it is malformed, for a vocabulary without
  // </s>, <unk> or <pad> or with ids other than 0..n-1, for a size other than a Marian model's, and for a
  // vocabulary that lacks more than one in ten of its model's pieces. (Fewer missing ones, as in some
  // published folders, become <unk> and are logged.)
  static TranslationTokenizer load(const std::filesystem::path& folder, ExpectedSizes expected = {});

  // Numbers the pieces of new SentencePiece models. Joint vocabulary, Marian's order: </s> = 0, <unk> = 1,
  // the pieces in the model's order, <pad> last. Separate vocabularies: </s> = 0, <unk> = 1, <pad> = 2, then
  // the pieces, so that special tokens have the same ids on both sides (a Marian configuration has one field
  // for each). Throws DataError if a model is not a SentencePiece model.
  static TranslationTokenizer from_models(const MarianModels& models);

  // One tokenizer for both sides. Throws DataError unless it adds a token after the text, and nothing more
  // than one token before it.
  explicit TranslationTokenizer(const Tokenizer& tokenizer, std::optional<SourceLanguages> languages = {});

  // Writes a Marian folder's tokenizer files (source.spm, target.spm, vocab.json, tokenizer_config.json
  // etc.), which transformers' AutoTokenizer opens too. `max_length`: the model's maximum sequence length,
  // end token included. Creates the folder if missing; replaces each file atomically. Throws IoError;
  // UsageError for a tokenizer not made from Marian's files.
  void save(const std::filesystem::path& folder, int64_t max_length = 512) const;

  const Tokenizer& tokenizer(Side side) const { return side == Side::source ? source_ : target_; }

  // The ids of a text, without the end token: append eos_id() for model inputs and targets. A piece outside
  // the vocabulary is <unk>; the text </s> or <pad> never yields the special id. Marian: a leading language
  // code such as >>fra<< is one token, <unk> if not in the vocabulary.
  std::vector<int32_t> encode(Side side, std::string_view text) const;
  std::vector<int32_t> encode_source(std::string_view text) const { return encode(Side::source, text); }
  std::vector<int32_t> encode_target(std::string_view text) const { return encode(Side::target, text); }

  // The special tokens of a model's source: </s> after the text, <s> (BART) or its language around it.
  // `language`: as the vocabulary has it ("eng_Latn"); empty: the folder's. Throws UsageError for a language
  // that the vocabulary lacks, and for any if sources do not name theirs.
  Around around_source(std::string_view language = {}) const;
  // The token of a language, with which outputs in it begin. Throws likewise.
  int32_t target_language(std::string_view language) const;
  // Whether sources name their language; the languages' names, in the order of ids; whether an id is one.
  bool has_languages() const { return languages_.has_value(); }
  std::vector<std::string> languages() const;
  // The token of a language; nothing if the vocabulary lacks it.
  std::optional<int32_t> find_language(std::string_view language) const;
  bool is_language(int32_t id) const { return !language_of(id).empty(); }

  // Decodes ids, skipping special tokens (in Marian, <unk> is one).
  std::string decode(std::span<const int32_t> ids, Side side = Side::target) const;

  // The vocabulary's spelling of an id ("▁house"); empty for an id without a token, as models may have more
  // rows than tokens.
  std::string_view piece(int32_t id, Side side = Side::target) const;

  int32_t eos_id(Side side = Side::target) const;  // the end token
  int32_t unk_id(Side side = Side::target) const;  // -1: none
  int32_t pad_id(Side side = Side::target) const;  // also Marian's decoder start token; -1: none

  // The decoder's start token (<pad>, as in Marian) and the end token of both sides. Throws DataError if the
  // end tokens differ, or the target has no <pad>.
  SpecialIds special_ids() const;

  int64_t size(Side side = Side::target) const { return tokenizer(side).size(); }

  // For Marian's files; otherwise false and empty, but the folder's language of tokenizers with languages.
  bool separate_vocabularies() const;
  const std::string& source_lang() const;
  const std::string& target_lang() const;

  // Changes with the vocabulary, and with a Marian tokenizer's models: token ids may be cached under it.
  uint64_t fingerprint() const;

 private:
  explicit TranslationTokenizer(std::shared_ptr<const MarianFiles> files);
  const MarianFiles& marian(const char* what) const;
  std::string_view language_of(int32_t id) const;  // empty: none
  int32_t language_id(const char* what, std::string_view language) const;

  Tokenizer source_, target_;
  Around around_;  // a source, without its language
  int32_t source_eos_, target_eos_;
  std::optional<SourceLanguages> languages_;
  std::shared_ptr<const MarianFiles> marian_;  // null: other files
};

}  // namespace qkv::text

#pragma once
// The tokenizer of a Hugging Face Marian folder: SentencePiece models that cut text into pieces (source.spm,
// target.spm), and a vocabulary that numbers the pieces (vocab.json, and target_vocab.json where the two
// languages have their own). SentencePiece's own numbers mean nothing outside this class.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

enum class Side { source, target };

// What a new tokenizer is made of.
struct MarianModels {
  std::string source;  // a serialized SentencePiece model
  std::string target;  // the same of the target language; empty: one joint vocabulary, `source` serves both
  std::string source_lang;  // such as "en"; may be empty
  std::string target_lang;
};

// The vocabulary sizes that a model's weights ask for; 0 = unknown, not checked.
struct ExpectedSizes {
  int64_t source = 0;
  int64_t target = 0;
};

// Immutable and cheap to copy; all member functions may be called from several threads at once.
class MarianTokenizer {
 public:
  // Numbers the pieces of the models. Joint vocabulary, Marian's order: </s> = 0, <unk> = 1, the pieces in
  // the model's order, <pad> last. Separate vocabularies: </s> = 0, <unk> = 1, <pad> = 2, then the pieces, so
  // that the special tokens have the same id on both sides (a Marian configuration has one field for each).
  // Throws DataError if a model is not a SentencePiece model.
  static MarianTokenizer from_models(const MarianModels& models);

  // Reads vocab.json, source.spm, target.spm, and target_vocab.json if tokenizer_config.json says
  // separate_vocabs. Throws IoError for a missing file, and DataError naming the file for: a corrupt model or
  // JSON, a vocabulary without
  // </s>, <unk> or <pad>, ids that are not exactly 0..n-1, a size other than the expected, or a vocabulary
  // that lacks more than one in ten of its model's pieces. (A few missing ones, as in some published folders,
  // become <unk> and are told to the log.)
  static MarianTokenizer load(const std::filesystem::path& folder, ExpectedSizes expected = {});

  // Writes what load() reads, and tokenizer_config.json and special_tokens_map.json, so that transformers'
  // AutoTokenizer opens the folder. Creates the folder if missing; each file is replaced atomically. Throws
  // IoError.
  void save(const std::filesystem::path& folder) const;

  // The ids of a text; a piece outside the vocabulary is <unk>. Special tokens are not added: append eos_id()
  // to what a model reads or is to predict. The text </s> or <pad> never gives the special id. A leading
  // language code such as >>fra<< is one token; <unk> where the vocabulary does not have it.
  std::vector<int32_t> encode_source(std::string_view text) const { return encode(Side::source, text); }
  std::vector<int32_t> encode_target(std::string_view text) const { return encode(Side::target, text); }
  std::vector<int32_t> encode(Side side, std::string_view text) const;

  // Text of target-side ids, or of source-side ids where asked: special tokens (<unk> is one) are left out
  // and the pieces joined to plain text. The same as MarianTokenizer.decode(ids, skip_special_tokens=True),
  // with use_source_tokenizer where the vocabularies are separate. Throws UsageError for an id outside the
  // vocabulary.
  std::string decode(std::span<const int32_t> ids, Side side = Side::target) const;

  // The piece that an id stands for, as the vocabulary spells it ("▁house"). Throws UsageError for an id
  // outside it.
  const std::string& piece(int32_t id, Side side = Side::target) const;

  // These ids are the target side's; with a joint vocabulary, or one that from_models() numbered, the source
  // side's too.
  int32_t eos_id(Side side = Side::target) const;  // </s>, ends a sequence
  int32_t unk_id(Side side = Side::target) const;  // <unk>
  int32_t pad_id(Side side = Side::target) const;  // <pad>, which is also Marian's decoder start

  int64_t size(Side side = Side::target) const;
  bool separate_vocabularies() const;
  const std::string& source_lang() const;
  const std::string& target_lang() const;

  // Changes whenever a model or a vocabulary does: a cache of token ids is valid for one fingerprint.
  uint64_t fingerprint() const;

 private:
  struct Parts;
  explicit MarianTokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

}  // namespace qkv::text

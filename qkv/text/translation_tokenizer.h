#pragma once
// What stands between sentences and an encoder-decoder, whichever files a folder keeps it in.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qkv/text/marian_tokenizer.h"
#include "qkv/text/tokenizer.h"

namespace qkv::text {

// A Marian folder's pair of tokenizers, or one tokenizer for both sides, as T5 has it. Immutable and cheap to
// copy; all member functions may be called from several threads at once.
class TranslationTokenizer {
 public:
  // Marian's where there is a source.spm or a target.spm, else what Tokenizer::load() finds. Throws what
  // these throw, and DataError naming the folder for a tokenizer of another size than a Marian model expects,
  // or a larger one than another model does.
  static TranslationTokenizer load(const std::filesystem::path& folder, ExpectedSizes expected = {});

  explicit TranslationTokenizer(MarianTokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  // Throws DataError where it puts anything else around a text than one token behind it.
  explicit TranslationTokenizer(Tokenizer tokenizer);

  // The ids of a text, without the end: append eos_id() to what a model reads or is to predict.
  std::vector<int32_t> encode(Side side, std::string_view text) const;
  std::vector<int32_t> encode_source(std::string_view text) const { return encode(Side::source, text); }
  std::vector<int32_t> encode_target(std::string_view text) const { return encode(Side::target, text); }

  // The text of target-side ids, without special tokens.
  std::string decode(std::span<const int32_t> ids) const;

  // How the vocabulary spells an id ("▁house"); nothing for an id that has no token, as models may have more
  // rows than there are tokens. Marian's have not: there it throws UsageError.
  std::string_view piece(int32_t id, Side side = Side::target) const;

  int32_t eos_id(Side side = Side::target) const;
  int64_t size(Side side = Side::target) const;

 private:
  struct Single {
    Tokenizer tokenizer;
    int32_t eos;
  };
  std::variant<MarianTokenizer, Single> tokenizer_;
};

}  // namespace qkv::text

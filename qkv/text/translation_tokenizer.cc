#include "qkv/text/translation_tokenizer.h"

#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/text/files/marian_files.h"

namespace qkv::text {
namespace {

// The token after a text.
int32_t end_of(const Tokenizer& tokenizer) {
  const std::vector<int32_t> around = tokenizer.encode("").ids;
  if (around.size() != 1) {
    throw DataError(concat(
        "tokenizer.json: expected a tokenizer that adds one token after a text and none before it, found ",
        around.size(), " around an empty text"));
  }
  return around.front();
}

// Both sides share one tokenizer if they are equal.
Tokenizer target_of(const MarianFiles& files, const Tokenizer& source) {
  const bool same = !files.separate() && files.source.model == files.target.model;
  return same ? source : Tokenizer(files.parts(Side::target));
}

}  // namespace

TranslationTokenizer::TranslationTokenizer(const Tokenizer& tokenizer)
    : source_(tokenizer), target_(tokenizer), source_eos_(end_of(tokenizer)), target_eos_(source_eos_) {}

TranslationTokenizer::TranslationTokenizer(std::shared_ptr<const MarianFiles> files)
    : source_(files->parts(Side::source)),
      target_(target_of(*files, source_)),
      source_eos_(end_of(source_)),
      target_eos_(end_of(target_)),
      marian_(std::move(files)) {}

TranslationTokenizer TranslationTokenizer::load(const std::filesystem::path& folder, ExpectedSizes expected) {
  // If one of the two exists, an error names the missing one.
  const bool marian = with_io_errors([&] {
    return std::filesystem::exists(folder / "source.spm") || std::filesystem::exists(folder / "target.spm");
  });
  if (marian) return TranslationTokenizer(std::make_shared<MarianFiles>(read_marian_files(folder, expected)));
  const Tokenizer tokenizer = Tokenizer::load(folder);
  try {
    return TranslationTokenizer(tokenizer);
  } catch (const DataError& error) {
    throw DataError(concat(folder.string(), ": ", error.what()));
  }
}

TranslationTokenizer TranslationTokenizer::from_models(const MarianModels& models) {
  return TranslationTokenizer(std::make_shared<MarianFiles>(number_pieces(models)));
}

const MarianFiles& TranslationTokenizer::marian(const char* what) const {
  if (!marian_) throw UsageError(concat(what, ": expected the tokenizers of a Marian folder, found another"));
  return *marian_;
}

void TranslationTokenizer::save(const std::filesystem::path& folder, int64_t max_length) const {
  write_marian_files(marian("saving a tokenizer"), folder, max_length);
}

std::vector<int32_t> TranslationTokenizer::encode(Side side, std::string_view text) const {
  return tokenizer(side).encode(text, {.special_tokens = false, .truncation = {}}).ids;
}

std::string TranslationTokenizer::decode(std::span<const int32_t> ids, Side side) const {
  return tokenizer(side).decode(ids);
}

std::string_view TranslationTokenizer::piece(int32_t id, Side side) const {
  return tokenizer(side).token(id).value_or("");
}

int32_t TranslationTokenizer::eos_id(Side side) const {
  return side == Side::source ? source_eos_ : target_eos_;
}

int32_t TranslationTokenizer::unk_id(Side side) const {
  return tokenizer(side).special_tokens().unk.value_or(-1);
}

SpecialIds TranslationTokenizer::special_ids() const {
  const int32_t start = pad_id(), eos = eos_id();
  if (start < 0) throw DataError("tokenizer: expected <pad>, which a decoder begins with, found none");
  if (source_eos_ != eos) {
    throw DataError(
        concat("tokenizer: expected one id that ends source and target, found ", source_eos_, " and ", eos));
  }
  return {.start = start, .eos = eos};
}

int32_t TranslationTokenizer::pad_id(Side side) const {
  return tokenizer(side).special_tokens().pad.value_or(-1);
}

bool TranslationTokenizer::separate_vocabularies() const { return marian_ && marian_->separate(); }

const std::string& TranslationTokenizer::source_lang() const {
  static const std::string kNone;
  return marian_ ? marian_->source_lang : kNone;
}

const std::string& TranslationTokenizer::target_lang() const {
  static const std::string kNone;
  return marian_ ? marian_->target_lang : kNone;
}

uint64_t TranslationTokenizer::fingerprint() const {
  if (marian_) return marian_->fingerprint();
  Hash64 hash;
  for (int32_t id = 0; id < target_.size(); ++id) {
    const std::string_view token = piece(id);
    hash.add(uint64_t{token.size()});
    hash.add(token);
  }
  return hash.value();
}

}  // namespace qkv::text

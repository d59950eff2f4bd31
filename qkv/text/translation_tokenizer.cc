#include "qkv/text/translation_tokenizer.h"

#include <utility>

#include "qkv/base/error.h"

namespace qkv::text {

TranslationTokenizer TranslationTokenizer::load(const std::filesystem::path& folder, ExpectedSizes expected) {
  // One of the pair says what the other is missing from.
  if (std::filesystem::exists(folder / "source.spm") || std::filesystem::exists(folder / "target.spm"))
    return TranslationTokenizer(MarianTokenizer::load(folder, expected));
  const Tokenizer tokenizer = Tokenizer::load(folder);
  for (const int64_t most : {expected.source, expected.target}) {
    if (most != 0 && tokenizer.size() > most) {
      throw DataError(concat(folder.string(), ": expected a tokenizer of at most the model's ", most,
                             " tokens, found ", tokenizer.size()));
    }
  }
  try {
    return TranslationTokenizer(tokenizer);
  } catch (const DataError& error) {
    throw DataError(concat(folder.string(), ": ", error.what()));
  }
}

TranslationTokenizer::TranslationTokenizer(Tokenizer tokenizer)
    : tokenizer_(Single{std::move(tokenizer), 0}) {
  Single& single = std::get<Single>(tokenizer_);
  const std::vector<int32_t> around = single.tokenizer.encode("").ids;
  if (around.size() != 1) {
    throw DataError(
        concat("expected a tokenizer that puts one token behind a text and none before it, found ",
               around.size(), " around an empty one"));
  }
  single.eos = around.front();
}

std::vector<int32_t> TranslationTokenizer::encode(Side side, std::string_view text) const {
  if (const auto* pair = std::get_if<MarianTokenizer>(&tokenizer_)) return pair->encode(side, text);
  return std::get<Single>(tokenizer_).tokenizer.encode(text, {.special_tokens = false, .truncation = {}}).ids;
}

std::string TranslationTokenizer::decode(std::span<const int32_t> ids) const {
  if (const auto* pair = std::get_if<MarianTokenizer>(&tokenizer_)) return pair->decode(ids);
  return std::get<Single>(tokenizer_).tokenizer.decode(ids);
}

std::string_view TranslationTokenizer::piece(int32_t id, Side side) const {
  if (const auto* pair = std::get_if<MarianTokenizer>(&tokenizer_)) return pair->piece(id, side);
  return std::get<Single>(tokenizer_).tokenizer.token(id).value_or("");
}

int32_t TranslationTokenizer::eos_id(Side side) const {
  if (const auto* pair = std::get_if<MarianTokenizer>(&tokenizer_)) return pair->eos_id(side);
  return std::get<Single>(tokenizer_).eos;
}

int64_t TranslationTokenizer::size(Side side) const {
  if (const auto* pair = std::get_if<MarianTokenizer>(&tokenizer_)) return pair->size(side);
  return std::get<Single>(tokenizer_).tokenizer.size();
}

}  // namespace qkv::text

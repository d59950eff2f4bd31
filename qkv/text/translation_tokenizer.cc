#include "qkv/text/translation_tokenizer.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/base/json.h"
#include "qkv/text/files/folder_config.h"
#include "qkv/text/files/marian_files.h"

namespace qkv::text {
namespace {

// What a tokenizer adds to a text: the end token, and before the text nothing, or a start token (BART).
Around around_texts(const Tokenizer& tokenizer) {
  Around around = tokenizer.around();
  if (around.after.size() != 1 || around.before.size() > 1) {
    throw DataError(
        concat("tokenizer.json: expected a tokenizer that adds one token after a text and at most one before "
               "it, found ",
               around.after.size(), " and ", around.before.size()));
  }
  return around;
}

// Sources with languages end in </s>, whatever the file's template.
Around around_texts(const Tokenizer& tokenizer, const std::optional<SourceLanguages>& languages) {
  if (!languages) return around_texts(tokenizer);
  if (!tokenizer.special_tokens().eos)
    throw DataError("tokenizer_config.json: expected an eos_token, found none");
  return {.after = {*tokenizer.special_tokens().eos}};
}

// fairseq's spelling of languages with scripts or countries: "eng_Latn", "en_XX".
bool spells_language(std::string_view token) {
  const auto letters = [](std::string_view part) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    return !part.empty() && std::ranges::all_of(part, letter);
  };
  const size_t line = token.find('_');
  return line != token.npos && letters(token.substr(0, line)) && letters(token.substr(line + 1));
}

std::optional<SourceLanguages> languages_in(const std::filesystem::path& folder) {
  const FolderConfig config = read_folder_config(folder / "tokenizer.json");
  if (!config.has_languages() && config.model_type == "m2m_100") {
    throw DataError(concat((folder / "tokenizer_config.json").string(),
                           ": tokenizer_class: expected NllbTokenizer or M2M100Tokenizer, which name the "
                           "language of a source, found ",
                           config.tokenizer_class.empty() ? "none" : quoted_json(config.tokenizer_class)));
  }
  if (!config.has_languages()) return std::nullopt;
  const bool nllb = config.is_a({"Nllb"}, {}), mbart50 = config.is_a({"MBart50"}, {});
  const char* const usual = config.is_m2m() ? "en" : nllb ? "eng_Latn" : "en_XX";
  return SourceLanguages{.before = mbart50 || config.is_m2m() || (nllb && !config.language_at_end),
                         .mark = config.is_m2m() ? "__" : "",
                         .usual = config.source_language.empty() ? usual : config.source_language};
}

// Both sides share one tokenizer if they are equal.
Tokenizer target_of(const MarianFiles& files, const Tokenizer& source) {
  const bool same = !files.separate() && files.source.model == files.target.model;
  return same ? source : Tokenizer(files.parts(Side::target));
}

}  // namespace

TranslationTokenizer::TranslationTokenizer(const Tokenizer& tokenizer,
                                           std::optional<SourceLanguages> languages)
    : source_(tokenizer),
      target_(tokenizer),
      around_(around_texts(tokenizer, languages)),
      source_eos_(around_.after.front()),
      target_eos_(source_eos_),
      languages_(std::move(languages)) {}

TranslationTokenizer::TranslationTokenizer(std::shared_ptr<const MarianFiles> files)
    : source_(files->parts(Side::source)),
      target_(target_of(*files, source_)),
      around_(around_texts(source_)),
      source_eos_(around_.after.front()),
      target_eos_(around_texts(target_).after.front()),
      marian_(std::move(files)) {}

TranslationTokenizer TranslationTokenizer::load(const std::filesystem::path& folder, ExpectedSizes expected) {
  // If one of the two exists, an error names the missing one.
  const bool marian = with_io_errors([&] {
    return std::filesystem::exists(folder / "source.spm") || std::filesystem::exists(folder / "target.spm");
  });
  if (marian) return TranslationTokenizer(std::make_shared<MarianFiles>(read_marian_files(folder, expected)));
  const Tokenizer tokenizer = Tokenizer::load(folder);
  try {
    return TranslationTokenizer(tokenizer, with_io_errors([&] { return languages_in(folder); }));
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

Around TranslationTokenizer::around_source(std::string_view language) const {
  Around around = around_;
  if (!languages_ && language.empty()) return around;
  const int32_t id =
      language_id("source_language", languages_ && language.empty() ? languages_->usual : language);
  (languages_->before ? around.before : around.after).push_back(id);
  return around;
}

int32_t TranslationTokenizer::target_language(std::string_view language) const {
  return language_id("target_language", language);
}

std::vector<std::string> TranslationTokenizer::languages() const {
  std::vector<std::string> names;
  for (int32_t id = 0; id < source_.size(); ++id) {
    if (const std::string_view name = language_of(id); !name.empty()) names.emplace_back(name);
  }
  return names;
}

std::optional<int32_t> TranslationTokenizer::find_language(std::string_view language) const {
  if (!languages_) return {};
  const auto id = source_.id_of(concat(languages_->mark, language, languages_->mark));
  return id && is_language(*id) ? id : std::nullopt;
}

std::string_view TranslationTokenizer::language_of(int32_t id) const {
  if (!languages_ || !source_.is_special(id)) return {};
  std::string_view token = source_.token(id).value_or("");
  const std::string_view mark = languages_->mark;
  if (mark.empty()) return spells_language(token) ? token : std::string_view();
  if (token.size() <= 2 * mark.size() || !token.starts_with(mark) || !token.ends_with(mark)) return {};
  token.remove_prefix(mark.size());
  token.remove_suffix(mark.size());
  return token;
}

int32_t TranslationTokenizer::language_id(const char* what, std::string_view language) const {
  if (!languages_) {
    throw UsageError(
        concat(what, ": expected none, as the model's texts do not name their language, found ", language));
  }
  if (const auto id = find_language(language)) return *id;
  const std::vector<std::string> known = languages();
  throw UsageError(concat(what, ": expected one of the model's ", known.size(), " languages",
                          known.empty() ? "" : concat(" (", known.front(), " to ", known.back(), ")"),
                          ", found ", language));
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
  return marian_ ? marian_->source_lang : languages_ ? languages_->usual : kNone;
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

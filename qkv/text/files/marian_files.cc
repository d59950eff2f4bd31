#include "qkv/text/files/marian_files.h"

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEos = "</s>", kUnk = "<unk>", kPad = "<pad>";

std::shared_ptr<const SentencePieceModel> read_model(const fs::path& path) {
  return std::make_shared<SentencePieceModel>(read_file(path), path.string());
}

std::shared_ptr<const Vocabulary> read_vocabulary(const fs::path& path, int64_t expected = 0) {
  const JsonValue object = parse_json(read_file(path), path.string(), {.unique_keys = true});
  auto vocabulary = std::make_shared<Vocabulary>(Vocabulary::from_json(object));
  if (expected != 0 && vocabulary->size() != expected) {
    throw DataError(concat(path.string(), ": expected ", expected, " pieces, the model's number, found ",
                           vocabulary->size()));
  }
  return vocabulary;
}

// Special tokens first, those in `last` at the end, the text pieces in between.
std::shared_ptr<const Vocabulary> numbered(const SentencePieceModel& model, bool separate,
                                           const std::string& name) {
  auto vocabulary = std::make_shared<Vocabulary>();
  const auto append = [&](std::string_view token) { vocabulary->add(token, vocabulary->size(), name); };
  append(kEos);
  append(kUnk);
  if (separate) append(kPad);
  for (int32_t id = 0; id < model.size(); ++id) {
    const std::string& piece = model.piece(id);
    if (model.in_text(id) && piece != kEos && piece != kUnk && piece != kPad) append(piece);
  }
  if (!separate) append(kPad);
  return vocabulary;
}

}  // namespace

TokenizerParts marian_parts(const MarianSide& side, std::shared_ptr<const SentencePieceModel> joiner) {
  const Vocabulary& vocabulary = *side.vocabulary;
  TokenizerParts parts;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.has(id)) continue;
    throw DataError(concat(side.name, ": expected the ids 0 to ", vocabulary.count() - 1, " for ",
                           vocabulary.count(), " pieces, found none for ", id,
                           "; a piece is missing or an id is wrong"));
  }
  const int32_t eos = vocabulary.require(kEos, side.name), unk = vocabulary.require(kUnk, side.name),
                pad = vocabulary.require(kPad, side.name);
  parts.special_tokens.eos = eos;
  parts.special_tokens.unk = unk;
  parts.special_tokens.pad = pad;
  parts.symbols = {eos, unk, pad};
  parts.post_processing.single = {{0, {}, 0}, {-1, {eos}, 0}};
  parts.post_processing.pair = {{0, {}, 0}, {1, {}, 0}, {-1, {eos}, 0}};
  parts.model =
      numbered_pieces_model(side.model, side.vocabulary,
                            {.unknown = unk, .symbols = parts.symbols, .language_codes = true}, side.name);
  parts.decoder = sentencepiece_decoder(std::move(joiner), /*marian=*/true);
  return parts;
}

TokenizerParts MarianFiles::parts(Side side) const {
  // With a joint vocabulary, transformers joins pieces with the source model for both languages.
  TokenizerParts parts = side == Side::source
                             ? marian_parts(source, source.model)
                             : marian_parts(target, separate() ? target.model : source.model);
  parts.clean_up_spaces = clean_up_spaces;
  return parts;
}

uint64_t MarianFiles::fingerprint() const {
  Hash64 hash;
  for (const MarianSide* side : {&source, &target}) {
    const std::string& bytes = side->model->bytes();
    hash.add(uint64_t{bytes.size()});
    hash.add(bytes);
    for (int32_t id = 0; id < side->vocabulary->size(); ++id) {
      const std::string& piece = side->vocabulary->token(id);
      hash.add(uint64_t{piece.size()});
      hash.add(piece);
    }
  }
  return hash.value();
}

MarianFiles number_pieces(const MarianModels& models) {
  const bool separate = !models.target.empty();
  MarianFiles files;
  files.source.name = concat("the vocabulary of ", models.source_name);
  files.source.model = std::make_shared<SentencePieceModel>(models.source, models.source_name);
  files.source.vocabulary = numbered(*files.source.model, separate, files.source.name);
  files.target = files.source;
  if (separate) {
    files.target.name = concat("the vocabulary of ", models.target_name);
    files.target.model = std::make_shared<SentencePieceModel>(models.target, models.target_name);
    files.target.vocabulary = numbered(*files.target.model, separate, files.target.name);
  }
  files.source_lang = models.source_lang;
  files.target_lang = models.target_lang;
  return files;
}

MarianFiles read_marian_files(const fs::path& folder, ExpectedSizes expected) {
  MarianFiles files;
  bool separate = false;
  if (const fs::path path = folder / "tokenizer_config.json"; fs::exists(path)) {  // absent in old folders
    const JsonValue config = parse_json(read_file(path), path.string());
    separate = config.boolean_or("separate_vocabs", false);
    files.source_lang = config.string_or("source_lang", "");
    files.target_lang = config.string_or("target_lang", "");
    files.clean_up_spaces = config.boolean_or("clean_up_tokenization_spaces", false);
  }
  const fs::path source_path = folder / "vocab.json";
  const fs::path target_path = separate ? folder / "target_vocab.json" : source_path;
  files.source.name = source_path.string();
  files.target.name = target_path.string();
  files.source.vocabulary = read_vocabulary(source_path, expected.source);
  files.target.vocabulary =
      separate ? read_vocabulary(target_path, expected.target) : files.source.vocabulary;
  files.source.model = read_model(folder / "source.spm");
  const fs::path target_model = folder / "target.spm";
  const bool same = !separate && read_file(target_model) == files.source.model->bytes();
  files.target.model = same ? files.source.model : read_model(target_model);
  return files;
}

void write_marian_files(const MarianFiles& files, const fs::path& folder, int64_t max_length) {
  make_writable_folder(folder);
  write_file_atomically(folder / "source.spm", files.source.model->bytes());
  write_file_atomically(folder / "target.spm", files.target.model->bytes());
  write_file_atomically(folder / "vocab.json", files.source.vocabulary->to_json());
  if (files.separate())
    write_file_atomically(folder / "target_vocab.json", files.target.vocabulary->to_json());
  const nlohmann::ordered_json special = {{"eos_token", kEos}, {"unk_token", kUnk}, {"pad_token", kPad}};
  nlohmann::ordered_json config = {{"tokenizer_class", "MarianTokenizer"},
                                   {"source_lang", files.source_lang},
                                   {"target_lang", files.target_lang},
                                   {"separate_vocabs", files.separate()},
                                   {"clean_up_tokenization_spaces", files.clean_up_spaces},
                                   {"model_max_length", max_length}};
  config.update(special);
  write_file_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
  write_file_atomically(folder / "special_tokens_map.json", special.dump(2) + "\n");
}

TokenizerParts read_marian_source(const fs::path& path) {
  const fs::path vocabulary = path.parent_path() / "vocab.json";
  const MarianSide source{read_model(path), read_vocabulary(vocabulary), vocabulary.string()};
  return marian_parts(source, source.model);
}

}  // namespace qkv::text

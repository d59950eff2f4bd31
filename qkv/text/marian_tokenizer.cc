#include "qkv/text/marian_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/base/json.h"
#include "qkv/base/log.h"
#include "qkv/text/vocabulary.h"

namespace qkv::text {
namespace {

constexpr std::string_view kWordBoundary = "▁";  // U+2581, SentencePiece's mark for a space

void check(const sentencepiece::util::Status& status, const char* what) {
  if (!status.ok()) throw Error(concat("SentencePiece cannot ", what, ": ", status.message()));
}

// A SentencePiece model together with the table from its own ids to the vocabulary's.
class PieceModel {
 public:
  PieceModel(std::string bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {
    const auto status = bytes_.empty()
                            ? sentencepiece::util::Status(sentencepiece::util::StatusCode::kDataLoss, "empty")
                            : processor_.LoadFromSerializedProto(bytes_);
    if (!status.ok()) {
      throw DataError(concat(name_, ": expected a SentencePiece model, found ", bytes_.size(),
                             " bytes that are not one or are cut off (", status.message(), ")"));
    }
  }

  // The pieces that text can be cut into: no control symbols, no unknown.
  std::vector<std::string> usable_pieces() const {
    std::vector<std::string> pieces;
    for (int i = 0; i < processor_.GetPieceSize(); ++i) {
      if (usable(i)) pieces.push_back(processor_.IdToPiece(i));
    }
    return pieces;
  }

  void number(const Vocabulary& vocabulary, const std::string& vocabulary_name) {
    int64_t pieces = 0, missing = 0;
    std::string first_missing;
    ids_.assign(static_cast<size_t>(processor_.GetPieceSize()), kNotInVocabulary);
    for (int i = 0; i < processor_.GetPieceSize(); ++i) {
      if (!usable(i)) continue;
      ++pieces;
      const int32_t id = vocabulary.find(processor_.IdToPiece(i));
      if (id >= 0) {
        ids_[static_cast<size_t>(i)] = id;
      } else if (missing++ == 0) {
        first_missing = processor_.IdToPiece(i);
      }
    }
    if (missing == 0) return;
    const std::string found = concat("expected the ", pieces, " pieces of ", name_, ", found that ", missing,
                                     " are missing, the first '", first_missing, "'");
    if (missing * 10 > pieces)
      throw DataError(concat(vocabulary_name, ": ", found, "; the files do not belong together"));
    log_warning(concat(vocabulary_name, ": ", found, "; they become <unk>"));
  }

  void encode(std::string_view text, const Vocabulary& vocabulary, std::vector<int32_t>& ids) const {
    std::vector<int> own;
    check(processor_.Encode({text.data(), text.size()}, &own), "encode");
    const size_t before = ids.size();
    bool known = true;
    for (const int i : own) {
      const int32_t id = ids_[static_cast<size_t>(i)];
      known = known && id != kNotInVocabulary;
      ids.push_back(id);
    }
    if (known) return;
    // Rare: an unknown stretch of text may still be a piece of the vocabulary, from the other language's
    // model.
    std::vector<std::string> pieces;
    check(processor_.Encode({text.data(), text.size()}, &pieces), "encode");
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (ids[before + i] != kNotInVocabulary) continue;
      const int32_t id = vocabulary.find(pieces[i]);
      ids[before + i] = id < 0 || vocabulary.special(id) ? vocabulary.unk() : id;
    }
  }

  std::string decode(const std::vector<std::string>& pieces) const {
    std::string text;
    check(processor_.Decode(pieces, &text), "decode");
    return text;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr int32_t kNotInVocabulary = -1;

  bool usable(int i) const {
    return !processor_.IsUnknown(i) && !processor_.IsControl(i) && !processor_.IsUnused(i);
  }

  std::string bytes_, name_;
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<int32_t> ids_;
};

// Word boundaries that the model did not know as such become spaces; none is left at the ends.
std::string plain_text(std::string_view decoded) {
  std::string text;
  while (!decoded.empty()) {
    const bool boundary = decoded.starts_with(kWordBoundary);
    text += boundary ? ' ' : decoded.front();
    decoded.remove_prefix(boundary ? kWordBoundary.size() : 1);
  }
  constexpr const char* kSpaces = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? std::string() : text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

struct Config {
  bool separate = false;
  std::string source_lang, target_lang;
};

Config read_config(const std::filesystem::path& path) {
  Config config;
  if (!std::filesystem::exists(path)) return config;  // old folders have none
  const JsonValue root = parse_json(read_file(path), path.string());
  config.separate = root.boolean_or("separate_vocabs", false);
  config.source_lang = root.string_or("source_lang", "");
  config.target_lang = root.string_or("target_lang", "");
  return config;
}

void check_size(const Vocabulary& vocabulary, int64_t expected, const std::string& name) {
  if (expected != 0 && vocabulary.size() != expected) {
    throw DataError(
        concat(name, ": expected ", expected, " pieces, as the model has, found ", vocabulary.size()));
  }
}

}  // namespace

struct MarianTokenizer::Parts {
  // A joint vocabulary is held once, in `source`; a model that serves both sides too.
  std::shared_ptr<const PieceModel> source_model, target_model;
  Vocabulary source;
  std::optional<Vocabulary> separate_target;
  std::string source_lang, target_lang;
  uint64_t fingerprint = 0;

  const Vocabulary& vocabulary(Side side) const {
    return side == Side::target && separate_target ? *separate_target : source;
  }
  const PieceModel& model(Side side) const { return side == Side::target ? *target_model : *source_model; }

  // Ties the models to the vocabularies; names are for messages.
  void link(std::shared_ptr<PieceModel> source_pieces, std::shared_ptr<PieceModel> target_pieces,
            const std::string& source_name, const std::string& target_name) {
    source_pieces->number(source, source_name);
    if (target_pieces != source_pieces) target_pieces->number(vocabulary(Side::target), target_name);
    source_model = std::move(source_pieces);
    target_model = std::move(target_pieces);
    Hash64 hash;
    for (const Side side : {Side::source, Side::target}) {
      const std::string& bytes = model(side).bytes();
      hash.add(uint64_t{bytes.size()});
      hash.add(bytes);
      for (const std::string& piece : vocabulary(side).pieces()) {
        hash.add(uint64_t{piece.size()});
        hash.add(piece);
      }
    }
    fingerprint = hash.value();
  }
};

MarianTokenizer MarianTokenizer::from_models(const MarianModels& models) {
  auto parts = std::make_shared<Parts>();
  const bool separate = !models.target.empty();
  const auto vocabulary = [&](const PieceModel& model, const std::string& name) {
    std::vector<std::string> pieces{std::string(kEosPiece), std::string(kUnkPiece)};
    if (separate) pieces.emplace_back(kPadPiece);
    for (std::string& piece : model.usable_pieces()) {
      if (piece != kEosPiece && piece != kUnkPiece && piece != kPadPiece) pieces.push_back(std::move(piece));
    }
    if (!separate) pieces.emplace_back(kPadPiece);
    return Vocabulary(std::move(pieces), name);
  };
  auto source = std::make_shared<PieceModel>(models.source, separate ? "the source model" : "the model");
  parts->source = vocabulary(*source, "the source vocabulary");
  auto target = source;
  if (separate) {
    target = std::make_shared<PieceModel>(models.target, "the target model");
    parts->separate_target = vocabulary(*target, "the target vocabulary");
  }
  parts->source_lang = models.source_lang;
  parts->target_lang = models.target_lang;
  parts->link(std::move(source), std::move(target), "the source vocabulary", "the target vocabulary");
  return MarianTokenizer(std::move(parts));
}

MarianTokenizer MarianTokenizer::load(const std::filesystem::path& folder, ExpectedSizes expected) {
  const auto path = [&](const char* name) { return (folder / name).string(); };
  const Config config = read_config(folder / "tokenizer_config.json");
  auto parts = std::make_shared<Parts>();
  const std::string source_name = path("vocab.json");
  const std::string target_name = config.separate ? path("target_vocab.json") : source_name;
  parts->source = Vocabulary::from_json(read_file(source_name), source_name);
  check_size(parts->source, expected.source, source_name);
  if (config.separate) parts->separate_target = Vocabulary::from_json(read_file(target_name), target_name);
  check_size(parts->vocabulary(Side::target), expected.target, target_name);
  parts->source_lang = config.source_lang;
  parts->target_lang = config.target_lang;

  auto source = std::make_shared<PieceModel>(read_file(path("source.spm")), path("source.spm"));
  auto target = source;
  std::string target_bytes = read_file(path("target.spm"));
  if (config.separate || target_bytes != source->bytes()) {
    target = std::make_shared<PieceModel>(std::move(target_bytes), path("target.spm"));
  }
  parts->link(std::move(source), std::move(target), source_name, target_name);
  return MarianTokenizer(std::move(parts));
}

void MarianTokenizer::save(const std::filesystem::path& folder) const {
  make_writable_folder(folder);
  write_file_atomically(folder / "source.spm", parts_->source_model->bytes());
  write_file_atomically(folder / "target.spm", parts_->target_model->bytes());
  write_file_atomically(folder / "vocab.json", parts_->source.to_json());
  if (parts_->separate_target) {
    write_file_atomically(folder / "target_vocab.json", parts_->separate_target->to_json());
  }
  const nlohmann::ordered_json special = {
      {"eos_token", kEosPiece}, {"unk_token", kUnkPiece}, {"pad_token", kPadPiece}};
  nlohmann::ordered_json config = {
      {"tokenizer_class", "MarianTokenizer"},  {"source_lang", parts_->source_lang},
      {"target_lang", parts_->target_lang},    {"separate_vocabs", separate_vocabularies()},
      {"clean_up_tokenization_spaces", false}, {"model_max_length", 512}};
  config.update(special);
  write_file_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
  write_file_atomically(folder / "special_tokens_map.json", special.dump(2) + "\n");
}

std::vector<int32_t> MarianTokenizer::encode(Side side, std::string_view text) const {
  const Vocabulary& vocabulary = parts_->vocabulary(side);
  std::vector<int32_t> ids;
  if (text.starts_with(">>")) {
    if (const size_t end = text.find("<<"); end != text.npos) {
      const int32_t code = vocabulary.find(text.substr(0, end + 2));
      ids.push_back(code >= 0 ? code : vocabulary.unk());
      text.remove_prefix(end + 2);
    }
  }
  parts_->model(side).encode(text, vocabulary, ids);
  return ids;
}

std::string MarianTokenizer::decode(std::span<const int32_t> ids, Side side) const {
  const Vocabulary& vocabulary = parts_->vocabulary(side);
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::string& text = piece(id, side);
    if (!vocabulary.special(id)) pieces.push_back(text);
  }
  // With a joint vocabulary transformers joins the pieces with the source model, whatever the language.
  return plain_text(parts_->model(separate_vocabularies() ? side : Side::source).decode(pieces));
}

const std::string& MarianTokenizer::piece(int32_t id, Side side) const {
  const auto& pieces = parts_->vocabulary(side).pieces();
  if (id < 0 || static_cast<size_t>(id) >= pieces.size()) {
    throw UsageError(concat("token id: expected 0 to ", pieces.size() - 1, ", found ", id));
  }
  return pieces[static_cast<size_t>(id)];
}

int32_t MarianTokenizer::eos_id(Side side) const { return parts_->vocabulary(side).eos(); }
int32_t MarianTokenizer::unk_id(Side side) const { return parts_->vocabulary(side).unk(); }
int32_t MarianTokenizer::pad_id(Side side) const { return parts_->vocabulary(side).pad(); }
int64_t MarianTokenizer::size(Side side) const { return parts_->vocabulary(side).size(); }
bool MarianTokenizer::separate_vocabularies() const { return parts_->separate_target.has_value(); }
const std::string& MarianTokenizer::source_lang() const { return parts_->source_lang; }
const std::string& MarianTokenizer::target_lang() const { return parts_->target_lang; }
uint64_t MarianTokenizer::fingerprint() const { return parts_->fingerprint; }

}  // namespace qkv::text

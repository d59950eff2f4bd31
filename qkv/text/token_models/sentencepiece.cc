#include "qkv/text/token_models/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/base/reserved_memory.h"
#include "qkv/text/steps/charsmap.h"
#include "qkv/text/token_models/byte_tokens.h"
#include "qkv/text/token_models/proto_fields.h"
#include "qkv/text/token_models/sentencepiece_message.h"

namespace qkv::text {
namespace {

constexpr std::string_view kWordBoundary = "▁";  // U+2581, SentencePiece's symbol for a space

void check(const sentencepiece::util::Status& status, const char* what) {
  if (!status.ok())
    throw Error(concat("SentencePiece cannot ", what, ": ", plain_sentencepiece_message(status.message())));
}

// Memory for encoding or decoding a text, with a margin: protobuf, which the library uses, crashes if an
// allocation fails.
size_t room_for(size_t bytes) { return (size_t{4} << 20) + 512 * bytes; }

// The library traverses character maps without bounds checks.
void check_charsmaps(std::string_view model, const std::string& name) {
  constexpr uint64_t kNormalizer = 3, kDenormalizer = 5, kCharsmap = 2;  // in sentencepiece_model.proto
  for (ProtoFields field(model); field.next();) {
    if (field.number() != kNormalizer && field.number() != kDenormalizer) continue;
    for (ProtoFields inner(field.bytes()); inner.next();) {
      if (inner.number() == kCharsmap && !inner.bytes().empty()) check_charsmap(inner.bytes(), name);
    }
  }
}

constexpr int32_t kBytePieces = 256;

std::string byte_piece(int32_t byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
  return text.data();
}

// The library joins a run of unknown characters by copying it for each of them, but not if the model has byte
// pieces. So it gets a model with such pieces behind its own: they affect no segmentation, and encode() joins
// them. Nothing if the model has some already, or if whole words are looked up (these might be spelled
// alike).
std::optional<std::string> with_byte_pieces(std::string_view model) {
  constexpr uint64_t kPieces = 1, kTrainer = 2;  // of a model, in sentencepiece_model.proto
  constexpr uint64_t kText = 1, kModelType = 3, kByteFallback = 35;  // of a piece; of a trainer
  constexpr uint64_t kUnigram = 1, kBpe = 2;                         // model types
  uint64_t type = kUnigram;
  ProtoFields field(model);
  while (field.next()) {
    if (field.number() != kPieces && field.number() != kTrainer) continue;
    ProtoFields inner(field.bytes());
    while (inner.next()) {
      if (field.number() == kPieces && inner.number() == kText && inner.bytes().starts_with("<0x"))
        return std::nullopt;
      if (field.number() != kTrainer) continue;
      if (inner.number() == kModelType) type = inner.integer();
      if (inner.number() == kByteFallback && inner.integer() != 0) return std::nullopt;
    }
    if (inner.malformed()) return std::nullopt;
  }
  if (field.malformed() || (type != kUnigram && type != kBpe)) return std::nullopt;
  std::string result(model);
  // {piece: "<0x00>", score: 0, type: BYTE}
  for (int32_t byte = 0; byte < kBytePieces; ++byte)
    result += std::string("\x0A\x0F\x0A\x06", 4) + byte_piece(byte) + std::string("\x15\0\0\0\0\x18\x06", 7);
  return result + "\x12\x03\x98\x02\x01";  // trainer_spec {byte_fallback: true}
}

class OwnIds : public TokenModel {
 public:
  explicit OwnIds(std::shared_ptr<const SentencePieceModel> model) : model_(std::move(model)) {
    for (int32_t id = 0; id < model_->size(); ++id) vocabulary_.add(model_->piece(id), id, model_->name());
  }

  void tokenize(std::string_view text, std::vector<Token>& tokens) const override {
    model_->encode(text, [&](int32_t id, std::string_view, uint32_t begin, uint32_t end) {
      tokens.push_back({id, begin, end});
    });
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  std::shared_ptr<const SentencePieceModel> model_;
  Vocabulary vocabulary_;
};

class NumberedPieces : public TokenModel {
 public:
  NumberedPieces(std::shared_ptr<const SentencePieceModel> model,
                 std::shared_ptr<const Vocabulary> vocabulary, NumberedPiecesOptions options,
                 const std::string& name)
      : model_(std::move(model)), vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
    number_pieces(name);
  }

  void tokenize(std::string_view text, std::vector<Token>& tokens) const override {
    uint32_t start = 0;
    if (options_.language_codes && text.starts_with(">>")) {
      if (const size_t end = text.find("<<"); end != text.npos) {
        start = static_cast<uint32_t>(end + 2);
        const int32_t code = vocabulary_->find(text.substr(0, start));
        tokens.push_back({code < 0 ? options_.unknown : code, 0, start});
      }
    }
    model_->encode(text.substr(start),
                   [&](int32_t own, std::string_view piece, uint32_t begin, uint32_t end) {
                     int32_t id = ids_[static_cast<size_t>(own)];
                     // Rare: text unknown to this model may be a piece of the other language's.
                     if (id < 0) id = found_in_text(piece);
                     tokens.push_back({id, start + begin, start + end});
                   });
  }

  const Vocabulary& vocabulary() const override { return *vocabulary_; }

 private:
  bool is_symbol(int32_t id) const { return std::ranges::count(options_.symbols, id) > 0; }

  int32_t found_in_text(std::string_view piece) const {
    const int32_t id = vocabulary_->find(piece);
    return id < 0 || is_symbol(id) ? options_.unknown : id;
  }

  void number_pieces(const std::string& name) {
    int64_t pieces = 0, missing = 0;
    std::string first_missing;
    ids_.assign(static_cast<size_t>(model_->size()), -1);
    for (int32_t own = 0; own < model_->size(); ++own) {
      if (!model_->in_text(own)) continue;
      ++pieces;
      const int32_t id = vocabulary_->find(model_->piece(own));
      if (id >= 0 && !is_symbol(id)) ids_[static_cast<size_t>(own)] = id;
      if (id < 0 && missing++ == 0) first_missing = model_->piece(own);
    }
    if (missing == 0) return;
    const std::string found = concat("expected the ", pieces, " pieces of ", model_->name(), ", found ",
                                     missing, " missing, the first '", first_missing, "'");
    if (missing * 10 > pieces)
      throw DataError(concat(name, ": ", found, "; the files do not belong together"));
    log_warning(concat(name, ": ", found, "; they become <unk>"));
  }

  std::shared_ptr<const SentencePieceModel> model_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  NumberedPiecesOptions options_;
  std::vector<int32_t> ids_;  // vocabulary id of each of the model's ids; -1: none
};

// Remaining word boundary symbols become spaces; leading and trailing ones are removed.
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

class Joiner : public Decoder {
 public:
  Joiner(std::shared_ptr<const SentencePieceModel> model, bool marian)
      : model_(std::move(model)), marian_(marian) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::string text = model_->decode(tokens);
    if (marian_) text = plain_text(text);
    tokens = {std::move(text)};
  }
  std::string within(std::string token) const override {
    if (const auto byte = byte_of_token(token)) return {static_cast<char>(*byte)};
    std::string text;
    for (size_t begin = 0;;) {
      const size_t at = token.find(kWordBoundary, begin);
      text.append(token, begin, at - begin);
      if (at == token.npos) return text;
      text += ' ';
      begin = at + kWordBoundary.size();
    }
  }

 private:
  std::shared_ptr<const SentencePieceModel> model_;
  bool marian_;
};

// The reason why the library cannot read a model, which may be empty; nothing if it can.
std::optional<std::string> load(sentencepiece::SentencePieceProcessor& library, const std::string& bytes) {
  try {
    const auto status = library.LoadFromSerializedProto(bytes);
    if (status.ok()) return std::nullopt;
    return plain_sentencepiece_message(status.message());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // of its tries
    std::string message = error.what();
    if (message.find("failed to resize pool") != message.npos) throw std::bad_alloc();
    return message;
  }
}

}  // namespace

struct SentencePieceModel::Processor {
  sentencepiece::SentencePieceProcessor library;
  int32_t added_pieces = 0;  // behind the model's own
};

SentencePieceModel::SentencePieceModel(std::string bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {
  check_charsmaps(bytes_, name_);
  const ReservedMemory reserved(room_for(0) + 16 * bytes_.size());
  auto processor = std::make_unique<Processor>();
  const std::optional<std::string> extended = with_byte_pieces(bytes_);
  if (extended) processor->added_pieces = kBytePieces;
  const std::optional<std::string> reason = load(processor->library, extended ? *extended : bytes_);
  if (reason) {
    throw DataError(concat(name_, ": expected a SentencePiece model, found ", bytes_.size(),
                           " bytes that are malformed or truncated",
                           reason->empty() ? "" : concat(" (", *reason, ")")));
  }
  processor_ = std::move(processor);
}

SentencePieceModel::~SentencePieceModel() = default;

int32_t SentencePieceModel::size() const {
  return processor_->library.GetPieceSize() - processor_->added_pieces;
}

// The library reads beyond its list.
int32_t SentencePieceModel::checked(int32_t id) const {
  if (id >= 0 && id < size()) return id;
  throw UsageError(concat(name_, ": expected the id of one of ", size(), " pieces, found ", id));
}

const std::string& SentencePieceModel::piece(int32_t id) const {
  return processor_->library.IdToPiece(checked(id));
}
bool SentencePieceModel::is_control(int32_t id) const { return processor_->library.IsControl(checked(id)); }

bool SentencePieceModel::in_text(int32_t id) const {
  const auto& library = processor_->library;
  checked(id);
  return !library.IsUnknown(id) && !library.IsControl(id) && !library.IsUnused(id);
}

SpecialTokens SentencePieceModel::special_tokens() const {
  const auto& library = processor_->library;
  const auto id = [](int found) { return found < 0 ? std::nullopt : std::optional<int32_t>(found); };
  SpecialTokens tokens;
  tokens.bos = id(library.bos_id());
  tokens.eos = id(library.eos_id());
  tokens.unk = id(library.unk_id());
  tokens.pad = id(library.pad_id());
  return tokens;
}

void SentencePieceModel::encode(std::string_view text, const EachPiece& each) const {
  const ReservedMemory reserved(room_for(text.size()));
  const auto cut = processor_->library.EncodeAsImmutableProto({text.data(), text.size()});
  const auto own_pieces = static_cast<uint32_t>(size());
  std::string unknown;  // a run of unknown characters
  uint32_t unknown_begin = 0, unknown_end = 0;
  const auto end_unknown = [&] {
    if (unknown.empty()) return;
    each(processor_->library.unk_id(), unknown, unknown_begin, unknown_end);
    unknown.clear();
  };
  for (size_t i = 0; i < cut.pieces_size(); ++i) {
    const auto one = cut.pieces(static_cast<int>(i));
    if (one.id() < own_pieces) {
      end_unknown();
      each(static_cast<int32_t>(one.id()), one.piece(), one.begin(), one.end());
      continue;
    }
    if (unknown.empty()) unknown_begin = one.begin();
    unknown += static_cast<char>(one.id() - own_pieces);
    unknown_end = one.end();
  }
  end_unknown();
}

std::string SentencePieceModel::decode(const std::vector<std::string>& pieces) const {
  size_t bytes = 0;
  for (const std::string& piece : pieces) bytes += piece.size();
  const ReservedMemory reserved(room_for(bytes));
  std::string text;
  check(processor_->library.Decode(pieces, &text), "decode");
  return text;
}

namespace {

void require_model(const std::shared_ptr<const SentencePieceModel>& model) {
  if (!model) throw UsageError("tokenizer: expected a SentencePiece model, found none");
}

}  // namespace

TokenModelPtr sentencepiece_model(std::shared_ptr<const SentencePieceModel> model) {
  require_model(model);
  return std::make_unique<OwnIds>(std::move(model));
}

TokenModelPtr numbered_pieces_model(std::shared_ptr<const SentencePieceModel> model,
                                    std::shared_ptr<const Vocabulary> vocabulary,
                                    NumberedPiecesOptions options, const std::string& name) {
  require_model(model);
  if (!vocabulary) throw UsageError(concat(name, ": expected a vocabulary, found none"));
  return std::make_unique<NumberedPieces>(std::move(model), std::move(vocabulary), std::move(options), name);
}

DecoderPtr sentencepiece_decoder(std::shared_ptr<const SentencePieceModel> model, bool marian) {
  require_model(model);
  return std::make_unique<Joiner>(std::move(model), marian);
}

}  // namespace qkv::text

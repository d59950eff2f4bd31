#include "qkv/text/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include "qkv/base/error.h"
#include "qkv/text/vocabulary.h"

namespace qkv::text {
namespace {

using sentencepiece::SentencePieceProcessor;

class Model : public TokenModel {
 public:
  Model(std::shared_ptr<const SentencePieceProcessor> processor, const std::string& name)
      : processor_(std::move(processor)) {
    for (int id = 0; id < processor_->GetPieceSize(); ++id)
      vocabulary_.add(processor_->IdToPiece(id), id, name);
  }

  void tokenize(std::string_view piece, std::vector<Token>& tokens) const override {
    const auto text = processor_->EncodeAsImmutableProto({piece.data(), piece.size()});
    for (size_t i = 0; i < text.pieces_size(); ++i) {
      const auto one = text.pieces(static_cast<int>(i));
      tokens.push_back({static_cast<int32_t>(one.id()), one.begin(), one.end()});
    }
  }

  const TokenTable& vocabulary() const override { return vocabulary_; }

 private:
  std::shared_ptr<const SentencePieceProcessor> processor_;
  TokenTable vocabulary_;
};

// Pieces that another vocabulary numbers.
class MarianModel : public TokenModel {
 public:
  MarianModel(std::shared_ptr<const SentencePieceProcessor> processor, TokenTable vocabulary, int32_t unk)
      : processor_(std::move(processor)), vocabulary_(std::move(vocabulary)), unk_(unk) {}

  void tokenize(std::string_view text, std::vector<Token>& tokens) const override {
    uint32_t begin = 0;
    if (text.starts_with(">>")) {  // a language's code, such as >>fra<<
      const size_t end = text.find("<<");
      const int32_t code = end == text.npos ? -1 : vocabulary_.find(text.substr(0, end + 2));
      if (code >= 0) {
        begin = static_cast<uint32_t>(end + 2);
        tokens.push_back({code, 0, begin});
      }
    }
    const auto rest = text.substr(begin);
    const auto cut = processor_->EncodeAsImmutableProto({rest.data(), rest.size()});
    for (size_t i = 0; i < cut.pieces_size(); ++i) {
      const auto one = cut.pieces(static_cast<int>(i));
      const int32_t id = vocabulary_.find(one.piece());
      // The text </s> is no end.
      const bool unknown = id < 0 || is_symbol(one.piece());
      tokens.push_back({unknown ? unk_ : id, begin + one.begin(), begin + one.end()});
    }
  }

  const TokenTable& vocabulary() const override { return vocabulary_; }

  static bool is_symbol(std::string_view piece) {
    return piece == kEosPiece || piece == kUnkPiece || piece == kPadPiece;
  }

 private:
  std::shared_ptr<const SentencePieceProcessor> processor_;
  TokenTable vocabulary_;
  int32_t unk_;
};

class Joiner : public Decoder {
 public:
  explicit Joiner(std::shared_ptr<const SentencePieceProcessor> processor)
      : processor_(std::move(processor)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::string text;
    const auto status = processor_->Decode(tokens, &text);
    if (!status.ok()) throw Error(concat("SentencePiece cannot decode: ", status.message()));
    tokens.assign(1, text);
  }

 private:
  std::shared_ptr<const SentencePieceProcessor> processor_;
};

std::shared_ptr<const SentencePieceProcessor> load(const std::string& bytes, const std::string& name) {
  auto processor = std::make_shared<SentencePieceProcessor>();
  const auto status = bytes.empty()
                          ? sentencepiece::util::Status(sentencepiece::util::StatusCode::kDataLoss, "empty")
                          : processor->LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    throw DataError(concat(name, ": expected a SentencePiece model, found ", bytes.size(),
                           " bytes that are not one or are cut off (", status.message(), ")"));
  }
  return processor;
}

}  // namespace

TokenizerParts read_sentencepiece(const std::string& bytes, const std::string& name) {
  const auto processor = load(bytes, name);
  TokenizerParts parts;
  const auto id = [](int found) { return found < 0 ? std::nullopt : std::optional<int32_t>(found); };
  parts.special_tokens.bos = id(processor->bos_id());
  parts.special_tokens.eos = id(processor->eos_id());
  parts.special_tokens.unk = id(processor->unk_id());
  parts.special_tokens.pad = id(processor->pad_id());
  for (int i = 0; i < processor->GetPieceSize(); ++i) {
    if (processor->IsControl(i)) parts.symbols.push_back(i);
  }
  parts.model = std::make_unique<Model>(processor, name);
  parts.decoder = std::make_unique<Joiner>(processor);
  return parts;
}

TokenizerParts read_marian_source(const std::string& model, TokenTable vocabulary, const std::string& name) {
  const auto processor = load(model, name);
  TokenizerParts parts;
  const auto id_of = [&](std::string_view token) {
    const int32_t id = vocabulary.find(token);
    if (id < 0)
      throw DataError(concat(name, ": expected the token '", token, "' in its vocab.json, found none"));
    return id;
  };
  const int32_t eos = id_of(kEosPiece), unk = id_of(kUnkPiece);
  parts.special_tokens.eos = eos;
  parts.special_tokens.unk = unk;
  parts.symbols = {eos, unk};
  if (const int32_t pad = vocabulary.find(kPadPiece); pad >= 0) {
    parts.special_tokens.pad = pad;
    parts.symbols.push_back(pad);
  }
  parts.post_processing.single = {{0, {}, 0}, {-1, {eos}, 0}};
  parts.post_processing.pair = {{0, {}, 0}, {1, {}, 0}, {-1, {eos}, 0}};
  parts.model = std::make_unique<MarianModel>(processor, std::move(vocabulary), unk);
  parts.decoder = std::make_unique<Joiner>(processor);
  return parts;
}

}  // namespace qkv::text

#include "qkv/text/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include "qkv/base/error.h"

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

}  // namespace

TokenizerParts read_sentencepiece(const std::string& bytes, const std::string& name) {
  auto processor = std::make_shared<SentencePieceProcessor>();
  const auto status = bytes.empty()
                          ? sentencepiece::util::Status(sentencepiece::util::StatusCode::kDataLoss, "empty")
                          : processor->LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    throw DataError(concat(name, ": expected a SentencePiece model, found ", bytes.size(),
                           " bytes that are not one or are cut off (", status.message(), ")"));
  }
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

}  // namespace qkv::text

#include "qkv/text/training/unigram_training.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/text/text_file.h"
#include "qkv/text/token_models/proto_fields.h"
#include "qkv/text/train_sentencepiece.h"
#include "qkv/text/training/tokenizer_writer.h"

namespace qkv::text {
namespace {

void require_readable_again(const std::filesystem::path& file) {
  const std::string_view kind = readable_once(file);
  if (kind.empty()) return;
  throw UsageError(concat("unigram training: expected files, which are read twice, found ",
                          kind == "stdin" ? "stdin" : file.string() + ", a pipe or device",
                          "; write the text to a file, which gzip may compress"));
}

struct Model {
  ScoredTokens pieces;
  std::string charsmap;
};

// Reads sentencepiece_model.proto's messages.
Model parse(const std::string& bytes) {
  constexpr uint64_t kPiece = 1, kNormalizer = 3;               // of ModelProto
  constexpr uint64_t kSpelling = 1, kScore = 2, kCharsmap = 2;  // of SentencePiece, NormalizerSpec
  Model model;
  for (ProtoFields field(bytes); field.next();) {
    if (field.number() == kPiece) {
      auto& [spelling, score] = model.pieces.emplace_back();
      for (ProtoFields inner(field.bytes()); inner.next();) {
        if (inner.number() == kSpelling) spelling = inner.bytes();
        if (inner.number() != kScore || inner.bytes().size() != sizeof(float)) continue;
        float value = 0;
        std::memcpy(&value, inner.bytes().data(), sizeof(value));
        score = static_cast<double>(value);
      }
    } else if (field.number() == kNormalizer) {
      for (ProtoFields inner(field.bytes()); inner.next();) {
        if (inner.number() == kCharsmap) model.charsmap = inner.bytes();
      }
    }
  }
  return model;
}

}  // namespace

std::string train_unigram(const TokenizerTraining& training, TokenizerProgress& progress,
                          const std::atomic<bool>* stop) {
  for (const auto& file : training.inputs) require_readable_again(file);
  TrainedLines lines;
  const std::string bytes = train_sentencepiece({.inputs = training.inputs,
                                                 .vocab_size = training.vocab_size,
                                                 .smaller_if_needed = true,
                                                 .max_sentences = training.vocab_lines,
                                                 .skip_bad_utf8 = training.skip_bad_utf8},
                                                stop, &lines);
  progress.lines = lines.lines;
  progress.used_lines = lines.used;
  progress.skipped_lines = lines.skipped_bad_utf8;
  const Model model = parse(bytes);
  const std::vector<std::string> special{"</s>", "<pad>"};
  if (model.pieces.empty() || model.pieces.front().first != kUnknown)
    throw Error("SentencePiece: expected a model whose first piece is <unk>, found another");
  progress.tokens = std::ssize(model.pieces) + std::ssize(special);
  return unigram_json(model.pieces, model.charsmap, special);
}

}  // namespace qkv::text

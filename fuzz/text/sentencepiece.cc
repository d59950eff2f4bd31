// Reads a SentencePiece model, and encodes and decodes texts.

#include "qkv/text/token_models/sentencepiece.h"
#include "fuzz/input.h"
#include "fuzz/reader.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  const text::SentencePieceModel model(std::string(bytes), "fuzz.model");
  std::vector<std::string> pieces;
  model.encode("Hello  wörld, ﬁne 中文 e\u0301 ① \xFF ▁x\n",
               [&](int32_t, std::string_view piece, uint32_t, uint32_t) { pieces.emplace_back(piece); });
  model.decode(pieces);
}

std::vector<std::string> seeds() {
  std::vector<std::string> all =
      golden_files({"text/golden", "apps/golden/hub", "pipelines/golden"}, ".model");
  for (std::string& one : golden_files({"apps/golden/hub", "pipelines/golden"}, ".spm"))
    all.push_back(std::move(one));
  return all;
}

}  // namespace

const Reader sentencepiece{"sentencepiece", read, seeds};

}  // namespace qkv::fuzz

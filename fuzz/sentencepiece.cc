// Reads a SentencePiece model; if that succeeds, encodes and decodes text.

#include <cstddef>
#include <cstdint>
#include <string>

#include "qkv/base/error.h"
#include "qkv/text/token_models/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv::text;
  try {
    const SentencePieceModel model(std::string(reinterpret_cast<const char*>(data), size), "fuzz.model");
    std::vector<std::string> pieces;
    model.encode("Hello  wörld, ﬁne 中文 e\u0301 ① \xFF ▁x\n",
                 [&](int32_t, std::string_view piece, uint32_t, uint32_t) { pieces.emplace_back(piece); });
    model.decode(pieces);
  } catch (const qkv::Error&) {
    // Rejected, as expected.
  }
  return 0;
}

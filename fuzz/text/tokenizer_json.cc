// Reads a tokenizer.json, and encodes and decodes texts.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/text/tokenizer.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  using namespace text;
  constexpr std::string_view kText = "Hello [MASK]  wörld, 中文 e\u0301 👍🏽 \xFF 12345 ▁x\n";
  const Tokenizer tokenizer = Tokenizer::from_json(bytes, "fuzz.json");
  const Encoding encoding =
      tokenizer.encode(kText, "second text", {.truncation = Truncation{.max_length = 40}});
  tokenizer.decode(encoding.ids);
  StreamDecoder decoder(tokenizer, {.skip_special_tokens = false});
  for (const int32_t id : encoding.ids) decoder.add(id);
  decoder.finish();
}

std::vector<std::string> seeds() {
  std::vector<std::string> all = golden_files({"apps/golden/hub", "pipelines/golden"}, "tokenizer.json");
  for (std::string& one : golden_files({"text/golden"}, ".json")) all.push_back(std::move(one));
  return all;
}

}  // namespace

const Reader tokenizer_json{"tokenizer_json", read, seeds};

}  // namespace qkv::fuzz

// Reads a tokenizer.json; if that succeeds, encodes and decodes text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv::text;
  constexpr std::string_view kText = "Hello [MASK]  wörld, 中文 e\u0301 👍🏽 \xFF 12345 ▁x\n";
  try {
    const Tokenizer tokenizer =
        Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
    const Encoding encoding =
        tokenizer.encode(kText, "second text", {.truncation = Truncation{.max_length = 40}});
    tokenizer.decode(encoding.ids);
    StreamDecoder decoder(tokenizer, {.skip_special_tokens = false});
    for (const int32_t id : encoding.ids) decoder.add(id);
    decoder.finish();
  } catch (const qkv::Error&) {
    // Rejected, as expected.
  }
  return 0;
}

#pragma once
// The parts of a tokenizer.json, each from its JSON.

#include "qkv/base/json.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {

// Each throws DataError naming the part's place and type where it is malformed or not supported.
NormalizerPtr read_normalizer(const JsonValue& part);
// The options of a BertNormalizer; nothing for another one.
std::optional<BertNormalizerOptions> read_bert_normalizer(const JsonValue& part);
DecoderPtr read_decoder(const JsonValue& part);

// `spell_bytes` is what the last ByteLevel does (ByteLevelOptions).
PreTokenizerPtr read_pre_tokenizer(const JsonValue& part, bool spell_bytes);
// Whether the last step is ByteLevel, which gives a model bytes, spelled as letters.
bool ends_with_byte_level(const JsonValue& pre_tokenizer);

void read_post_processor(const JsonValue& part, PostProcessing& result);

}  // namespace qkv::text

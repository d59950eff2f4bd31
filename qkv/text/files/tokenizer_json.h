#pragma once
// Reads the parts of a tokenizer.json.

#include "qkv/base/json.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {

// All throw DataError naming the part's path and type if it is malformed or unsupported.
NormalizerPtr read_normalizer(const JsonValue& part);
// The options of a BertNormalizer; nothing for other normalizers.
std::optional<BertNormalizerOptions> read_bert_normalizer(const JsonValue& part);
DecoderPtr read_decoder(const JsonValue& part);

// `spell_bytes`: for a final ByteLevel step (ByteLevelOptions).
PreTokenizerPtr read_pre_tokenizer(const JsonValue& part, bool spell_bytes);
// Whether the last step is ByteLevel, which spells bytes as letters.
bool ends_with_byte_level(const JsonValue& pre_tokenizer);

void read_post_processor(const JsonValue& part, PostProcessing& result);

}  // namespace qkv::text

#pragma once
// The steps from text to ids and back, as a tokenizer file of any format defines them.

#include <optional>
#include <string>
#include <vector>

#include "qkv/text/added_tokens.h"
#include "qkv/text/post_processing.h"
#include "qkv/text/steps/decoders.h"
#include "qkv/text/steps/normalizers.h"
#include "qkv/text/steps/pre_tokenizers.h"
#include "qkv/text/token_models/token_models.h"
#include "qkv/text/tokenizer.h"

namespace qkv::text {

struct TokenizerParts {
  NormalizerPtr normalizer;                   // may be null
  std::optional<BertNormalizerOptions> bert;  // its options, where it is BERT's
  PreTokenizerPtr pre_tokenizer;              // null: a text is one piece
  TokenModelPtr model;
  PostProcessing post_processing;
  DecoderPtr decoder;  // null: tokens with spaces between them
  std::vector<AddedToken> added_tokens;
  std::vector<int32_t> symbols;  // ids that are special and not found in text
  SpecialTokens special_tokens;
};

// The parts of a tokenizer.json's content, without special_tokens. Throws DataError naming `name` and the
// part.
TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& name);

}  // namespace qkv::text

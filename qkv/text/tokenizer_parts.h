#pragma once
// The steps of a tokenizer, independent of the file format that defines them.

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
  std::optional<BertNormalizerOptions> bert;  // set for BERT's normalizer
  PreTokenizerPtr pre_tokenizer;              // null: the whole text is one piece
  TokenModelPtr model;
  bool byte_pairs = false;  // the model is byte-pair encoding
  PostProcessing post_processing;
  DecoderPtr decoder;            // null: joins tokens with spaces
  bool clean_up_spaces = false;  // removes spaces from decoded text: without_extra_spaces()
  std::vector<AddedToken> added_tokens;
  std::vector<int32_t> symbols;  // special ids that are not matched in text
  SpecialTokens special_tokens;
};

// Parses a tokenizer.json, without special_tokens. Throws DataError naming `name` and the part.
TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& name);

}  // namespace qkv::text

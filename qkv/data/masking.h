#pragma once
// Masked language modelling (Devlin et al. 2019, section 3.1 and appendix A.1): inputs in which some tokens
// are replaced, and the tokens that a model has to predict there.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/base/philox.h"
#include "qkv/data/segments.h"
#include "qkv/data/token_rows.h"
#include "qkv/text/tokenizer.h"

namespace qkv::data {

struct MaskingOptions {
  float rate = 0.15f;  // share of the tokens of an input to predict; at least one is
  // What replaces them: the mask token, a random token, or else the token itself.
  float mask_share = 0.8f, random_share = 0.1f;
  // Selects words, with all their pieces: a piece "##ing" belongs to the word of the piece before it.
  bool whole_words = false;

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// The tokens of a WordPiece vocabulary by their use.
struct MaskingVocabulary {
  int32_t cls = 0, sep = 0, mask = 0;
  std::vector<int32_t> ordinary;        // all but special tokens and those for unknown text
  std::vector<uint8_t> is_ordinary;     // by id
  std::vector<uint8_t> continues_word;  // by id: "##ing"

  // Throws DataError, naming `name`, for a tokenizer without [CLS], [SEP], [MASK] or ordinary tokens.
  static MaskingVocabulary of(const text::Tokenizer& tokenizer, const std::string& name);
};

// Selects round(rate * ordinary tokens) tokens of an input [CLS] ... [SEP], at least one, and replaces each
// in `ids` independently. Special tokens are never selected, nor drawn as replacements; an input of special
// tokens alone has one of its text's selected. Whole words are selected in random order; one that would
// exceed the number is passed over, unless all are that long. Returns the selected positions, ascending.
std::vector<int32_t> mask_tokens(std::span<int32_t> ids, const MaskingVocabulary& vocabulary,
                                 const MaskingOptions& options, RandomStream& random);

// A batch.
struct MaskedRows {
  TokenRows inputs;                // [CLS] A [SEP] B [SEP], masked
  std::vector<int32_t> types;      // of each token: 0 up to the first [SEP], then 1
  std::vector<int32_t> positions;  // of each token; empty: each input begins at 0
  std::vector<int32_t> masked;     // ascending rows of the batch to predict
  std::vector<int32_t> labels;     // their tokens
  // Per input of a pair: 0 if B follows A, else 1, as in transformers. Empty without pairs.
  std::vector<int32_t> not_next;
};

// The rows of inputs. The masks and random positions are a function of (seed, epoch, item): dynamic masking
// (Liu et al. 2019, section 4.1). Throws UsageError for an input longer than batch.positions, if that is not
// 0.
MaskedRows make_rows(const SentenceDocuments& documents, const SegmentBatch& batch,
                     const MaskingVocabulary& vocabulary, const MaskingOptions& masking, uint64_t seed);

}  // namespace qkv::data

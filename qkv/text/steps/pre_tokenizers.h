#pragma once
// Splits text into pieces: the pre-tokenizers of a tokenizer.json. The model sees one piece at a time, so
// tokens never cross piece boundaries.

#include <memory>
#include <string>
#include <vector>

#include "qkv/text/steps/normalized_string.h"
#include "qkv/text/steps/pattern.h"

namespace qkv::text {

// A text and its pieces, in order; text between pieces is dropped.
struct Pieces {
  NormalizedString text;
  std::vector<Range> ranges;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

// Treatment of a pattern's matches, named as in tokenizer.json.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Splits at white space, which is removed, and isolates punctuation characters.
PreTokenizerPtr bert_pre_tokenizer();
// Splits at white space, which is removed, and between word and other characters.
PreTokenizerPtr whitespace_pre_tokenizer();
// Splits at white space, which is removed.
PreTokenizerPtr whitespace_split();
PreTokenizerPtr punctuation_split(SplitBehavior behavior);
PreTokenizerPtr digits_split(bool individual);
// Splits at the pattern's matches; inverted: at the text between them.
PreTokenizerPtr pattern_split(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool inverted);

struct ByteLevelOptions {
  bool add_prefix_space = true;
  bool use_regex = true;    // split with kGpt2Pattern
  bool spell_bytes = true;  // map each byte to one of 256 letters; false: the model reads raw bytes
};
PreTokenizerPtr byte_level_pre_tokenizer(const ByteLevelOptions& options);

enum class Prepend { always, first, never };  // `first`: only if the piece begins the text
struct MetaspaceOptions {
  std::string replacement = "▁";  // replaces spaces
  Prepend prepend = Prepend::always;
  bool split = true;  // split before each replacement
};
PreTokenizerPtr metaspace_pre_tokenizer(MetaspaceOptions options);

PreTokenizerPtr pre_tokenizer_sequence(std::vector<PreTokenizerPtr> parts);

}  // namespace qkv::text

#pragma once
// Cutting text into pieces: the pre-tokenizers of a tokenizer.json. A model sees one piece at a time, so no
// token crosses a cut.

#include <memory>
#include <string>
#include <vector>

#include "qkv/text/steps/normalized_string.h"
#include "qkv/text/steps/pattern.h"

namespace qkv::text {

// A text and its pieces, in order; the text between two pieces is removed.
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

// What happens to the matches of a pattern.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// At white space, which is removed, and at each punctuation character.
PreTokenizerPtr bert_pre_tokenizer();
// At white space, which is removed, and between word characters and others.
PreTokenizerPtr whitespace_pre_tokenizer();
// At white space, which is removed.
PreTokenizerPtr whitespace_split();
PreTokenizerPtr punctuation_split(SplitBehavior behavior);
PreTokenizerPtr digits_split(bool individual);
// At the pattern's matches; inverted: at the text between them.
PreTokenizerPtr pattern_split(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool inverted);

struct ByteLevelOptions {
  bool add_prefix_space = true;
  bool use_regex = true;    // cut with kGpt2Pattern
  bool spell_bytes = true;  // each byte becomes one of 256 letters; false: the model reads bytes as they are
};
PreTokenizerPtr byte_level_pre_tokenizer(const ByteLevelOptions& options);

enum class Prepend { always, first, never };  // `first`: where the piece is the text's beginning
struct MetaspaceOptions {
  std::string replacement = "▁";  // for each space
  Prepend prepend = Prepend::always;
  bool split = true;  // cut before each replacement
};
PreTokenizerPtr metaspace_pre_tokenizer(MetaspaceOptions options);

PreTokenizerPtr pre_tokenizer_sequence(std::vector<PreTokenizerPtr> parts);

}  // namespace qkv::text

#pragma once
// Changes to text before it is split: the normalizers of a tokenizer.json.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/steps/normalized_string.h"
#include "qkv/text/steps/pattern.h"

namespace qkv::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Changes the text in place.
  virtual void apply(NormalizedString& text) const = 0;
};

using NormalizerPtr = std::unique_ptr<const Normalizer>;

// The fields of a BertNormalizer.
struct BertNormalizerOptions {
  bool clean_text = true;             // removes control characters, replaces white space by spaces
  bool handle_chinese_chars = true;   // surrounds CJK ideographs with spaces
  std::optional<bool> strip_accents;  // removes nonspacing marks, after NFD; unset: same as `lowercase`
  bool lowercase = true;
};
NormalizerPtr bert_normalizer(const BertNormalizerOptions& options);

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };
NormalizerPtr unicode_normalizer(UnicodeForm form);

NormalizerPtr lowercase_normalizer();
NormalizerPtr strip_normalizer(bool left, bool right);  // white space at the ends
NormalizerPtr strip_accents_normalizer();               // marks of all kinds
NormalizerPtr replace_normalizer(std::unique_ptr<const Pattern> pattern, std::string content);
NormalizerPtr prepend_normalizer(std::string text);  // leaves empty text empty

// The character map of a SentencePiece model. Throws DataError beginning with `name` if the bytes are not
// one.
NormalizerPtr precompiled_normalizer(std::string_view charsmap, const std::string& name);

NormalizerPtr normalizer_sequence(std::vector<NormalizerPtr> parts);

}  // namespace qkv::text

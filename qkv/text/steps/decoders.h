#pragma once
// Converts tokens back to text: the decoders of a tokenizer.json.

#include <memory>
#include <string>
#include <vector>

#include "qkv/text/steps/pattern.h"
#include "qkv/text/steps/pre_tokenizers.h"

namespace qkv::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Converts tokens to parts of text, which the caller concatenates. Throws DataError if they would exceed
  // most_bytes_of() the tokens' bytes.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // The bytes of a token between others, which need not be whole characters.
  virtual std::string within(std::string token) const = 0;
};

using DecoderPtr = std::unique_ptr<const Decoder>;

// Removes the space before punctuation and contractions, as clean_up_tokenization() of transformers.
std::string without_extra_spaces(std::string text);

// Adds spaces before tokens that begin a word; cleanup removes those before punctuation and contractions.
DecoderPtr wordpiece_decoder(std::string prefix, bool cleanup);
DecoderPtr byte_level_decoder();
DecoderPtr metaspace_decoder(const MetaspaceOptions& options);
// Replaces the end-of-word suffix by a space, and removes it at the end of the text.
DecoderPtr bpe_decoder(std::string suffix);
DecoderPtr byte_fallback_decoder();  // converts runs of <0x..> that form UTF-8 to characters
DecoderPtr fuse_decoder();           // concatenates all parts
DecoderPtr replace_decoder(std::unique_ptr<const Pattern> pattern, std::string content);
// Removes a character from the ends of each part, at most `left` and `right` times.
DecoderPtr strip_decoder(std::string character, int64_t left, int64_t right);
// None of the parts is a sequence.
DecoderPtr decoder_sequence(std::vector<DecoderPtr> parts);

}  // namespace qkv::text
